//! Speaking with iperf3, 3.1 to 3.22.
//!
//! - [`wire`]: what goes over its connections, without sockets or clocks
//! - [`client`]: one run against one of its servers
//! - [`server`]: the server's part of a test as a state machine
//! - [`plan()`]: a test of iperf3 as a plan of ours
//! - [`one_end`]: a run as one end saw it
//! - [`text`]: its text, line by line
//! - [`users`]: who may measure
//!
//! docs/iperf3.md says what is answered, and docs/decisions/0026 why so.

pub mod client;
pub(crate) mod course;
pub mod one_end;
pub(crate) mod output;
mod plan;
pub(crate) mod results;
pub mod server;
pub mod text;
pub mod users;
pub mod wire;

pub use plan::plan;
pub(crate) use plan::stranger_trouble;
pub use users::Users;

/// The release whose text and options the personality speaks.
pub const RELEASE: &str = "3.12";
