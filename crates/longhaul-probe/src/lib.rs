//! Doing a measurement: sessions, data pump, sampler.
//!
//! - [`throughput::run`]: one bulk run against a far end, from the initiator's side
//! - [`serve::serve`]: the far end
//! - [`capture`]: packets of a run, into files and out of them
//! - [`engine`]: the bulk data of one end
//! - [`load`]: loads one after another, and probes beside them
//! - [`probing`]: trains and echoes of datagrams, against a far end
//! - [`host`]: this host's settings, read, tried, changed and put back
//! - [`iperf3`]: the same with what is not longhaul, on iperf3's wire
//! - [`session`], [`wire`]: the protocol between them, without sockets or clocks
//! - [`secure`]: TLS and the token
//! - [`limits`]: which plans can be run, and which are granted to strangers
//! - [`transfer`]: files from one end to the other
//! - [`supervise`]: clock and signals for whoever runs measurements as children
//!
//! Threads and blocking calls with deadlines; no store, no web, no command line.

#![forbid(unsafe_code)]

pub mod capture;
mod drive;
pub mod engine;
pub mod error;
pub mod host;
pub mod iperf3;
pub mod limits;
pub mod load;
pub mod path;
pub mod probing;
pub mod secure;
pub mod serve;
pub mod session;
pub mod supervise;
pub mod throughput;
mod told;
pub mod transfer;
pub mod wire;

use longhaul_model::report::v1::Party;
use longhaul_sys::host as own_host;

/// TCP and UDP port of the far end, shared with iperf3.
pub const DEFAULT_PORT: u16 = 5201;

/// What this host says of itself to a peer.
fn own_party() -> Party {
    let known = |text: String| (!text.is_empty()).then_some(text);
    Party {
        host: own_host::name(),
        address: None,
        longhaul: Some(env!("CARGO_PKG_VERSION").to_owned()),
        kernel: known(own_host::kernel()),
        cores: std::thread::available_parallelism()
            .ok()
            .map(|cores| cores.get() as u32),
    }
}
