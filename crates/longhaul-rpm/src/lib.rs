//! A client and a server of the IETF's test of responsiveness, which gives round trips per minute
//! (RPM).
//!
//! Connections of HTTP/2 over TLS transfer bulk data, while short requests are timed on them and on
//! connections of their own. Each role has its own async runtime, which its caller does not see.
//!
//! - [`rpm_config`]: the configuration that a server publishes, without sockets or clocks
//! - [`metered_socket`]: the socket below TLS, with its rate and the limits of a server
//! - [`load_body`]: the body of a bulk transfer
//! - [`http_connection`]: a connection of the client, and requests on it
//! - [`direction_run`]: the load and the probes of one direction
//! - [`rpm_client`]: a whole test against a server
//! - [`rpm_service`]: serves clients on a measurement server's port
//!
//! Source: draft-ietf-ippm-responsiveness-09. docs/methods/load.md describes what is supported.

#![forbid(unsafe_code)]

pub mod direction_run;
pub mod http_connection;
pub mod load_body;
pub mod metered_socket;
pub mod rpm_client;
pub mod rpm_config;
pub mod rpm_service;
#[cfg(test)]
mod tests;
