//! A client and a server of iperf3's protocol, versions 3.1 to 3.22, for programs that
//! measure with iperf3 peers without running iperf3.
//!
//! - [`iperf3_messages`]: the messages on its connections, without sockets or clocks
//! - [`client_run`]: a run against an iperf3 server
//! - [`iperf3_service`]: serves iperf3 clients on a measurement server's port
//! - [`server_protocol`]: the server's part of a test as a state machine
//! - [`users`]: authentication of users
//!
//! docs/iperf3.md describes what is supported, and docs/decisions/0026 gives the reasons.

#![forbid(unsafe_code)]

pub mod client_run;
mod counter_readings;
pub mod iperf3_messages;
pub mod iperf3_service;
pub mod server_protocol;
mod server_results;
pub mod users;

pub use iperf3_service::{Iperf3Handler, Iperf3Options};
pub use users::AuthorizedUsers;
