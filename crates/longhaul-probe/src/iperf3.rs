//! Interoperation with iperf3, versions 3.1 to 3.22.
//!
//! - [`wire`]: the messages on its connections, without sockets or clocks
//! - [`client`]: a run against an iperf3 server
//! - [`server`]: the server's part of a test as a state machine
//! - [`plan()`]: converts an iperf3 test to a plan
//! - [`one_end`]: an observation from the data of one end
//! - [`text`]: iperf3's text output
//! - [`users`]: authentication of users
//!
//! docs/iperf3.md describes what is supported, and docs/decisions/0026 gives the reasons.

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

/// The iperf3 release whose text and options are reproduced.
pub const RELEASE: &str = "3.12";
