//! Measurements of throughput, paths and hosts, for programs that measure and keep or show the
//! results in their own way.
//!
//! - [`throughput::run`]: one bulk run against a server, from the client's side
//! - [`measurement_server`]: the server
//! - [`engine`]: sends and receives the bulk data of one end
//! - [`flow_watch`]: TCP flows of other programs on this host
//! - [`load_run`]: a sequence of loads with concurrent probes
//! - [`latency`]: STAMP and TWAMP, both ends
//! - [`host_endpoint`]: a host and a port as people type them
//! - [`probing`]: trains and echoes of datagrams, against a server
//! - [`host`]: this host's settings: read, tried, changed and restored
//! - [`session`], [`wire`]: the protocol between them, without sockets or clocks
//! - [`secure`]: TLS and the token
//! - [`plan_limits`]: plans that can be run, and plans that are granted to anonymous clients
//! - [`file_lock`]: locks that are waited for
//! - [`supervise`]: clock and signals for programs that run measurements as child processes
//!
//! Crates that add a protocol use [`measurement_server::ProtocolHandler`] at the server,
//! [`session_driver::SessionEngines`] for bulk data with their own control connection, and
//! [`probing::ProbeControl`] for requests within a session.
//!
//! Uses threads and blocking calls with deadlines; contains no store, web or command line code.

#![forbid(unsafe_code)]

pub mod engine;
pub mod file_lock;
pub mod flow_watch;
pub mod header_capture;
pub mod host;
pub mod host_endpoint;
pub mod latency;
pub mod load_run;
pub mod measurement_server;
pub mod path;
pub mod plan_limits;
pub mod probe_error;
pub mod probing;
pub mod program_sanitizer;
pub mod run_capture;
pub mod secure;
pub mod session;
pub mod session_driver;
pub mod supervise;
pub mod throughput;
pub mod wire;

use longhaul_model::report::v1::RunParty;
use longhaul_sys::host as own_host;
use std::net::SocketAddr;

/// TCP and UDP port of the server, shared with iperf3.
pub use longhaul_model::report::v1::DEFAULT_PORT;

/// Returns this host's description of itself for the peer.
fn local_party_info() -> RunParty {
    let known = |text: String| (!text.is_empty()).then_some(text);
    RunParty {
        host: own_host::read_host_name(),
        address: None,
        port: None,
        longhaul: Some(env!("CARGO_PKG_VERSION").to_owned()),
        kernel: known(own_host::read_kernel_version()),
        cores: std::thread::available_parallelism().ok().map(|cores| cores.get() as u32),
        failed_addresses: Vec::new(),
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4; keeps a scope.
pub fn canonical_address(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}
