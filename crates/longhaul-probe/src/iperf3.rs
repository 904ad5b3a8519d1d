//! Speaking with iperf3, 3.1 to 3.22.
//!
//! - [`wire`]: what goes over its connections, without sockets or clocks
//!
//! docs/iperf3.md says what is answered, and docs/decisions/0026 why so.

pub mod wire;
