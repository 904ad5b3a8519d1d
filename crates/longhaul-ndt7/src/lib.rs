//! A client and a server of ndt7, for programs that measure with M-Lab's clients and servers.
//!
//! A subtest is one TCP connection with WebSocket, with or without TLS, on which one end sends random
//! data for ten seconds. Both ends send measurements: counts of the application and TCP_INFO.
//!
//! - [`ndt7_messages`]: measurements and results as JSON, without sockets or clocks
//! - [`ndt7_connection`]: the WebSocket connection of both roles
//! - [`subtest_transfer`]: sends or receives the data of a subtest
//! - [`subtest_client`]: a subtest against an ndt7 server
//! - [`server_locator`]: answers of M-Lab's Locate API
//! - [`ndt7_service`]: serves ndt7 clients on a measurement server's port
//!
//! Source: `spec/ndt7-protocol.md` (v0.11.0) and `spec/data-format.md` (v0.3.0) of ndt-server.
//! docs/ndt7.md describes what is supported.

#![forbid(unsafe_code)]

pub mod ndt7_connection;
pub mod ndt7_messages;
pub mod ndt7_service;
pub mod server_locator;
pub mod subtest_client;
pub mod subtest_transfer;
#[cfg(test)]
mod tests;
