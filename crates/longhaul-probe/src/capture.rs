//! Captures: packets of a run's own streams, from the kernel to a file, and from files back.
//!
//! - [`running`]: a thread that captures beside a run; [`filter`]: what it hears
//! - [`store`]: what it keeps, within bounds
//! - [mod@write]: packets as a pcapng file; [`read`]: pcapng and pcap files, damaged ones too
//! - [`decode`]: bytes of a packet → plain data for the analysis
//! - [`anonymise`]: a copy that can be shown to strangers
//!
//! - `beside`: one end's capture, from before its streams to behind them
//!
//! A capture never fails a run: what is missing becomes a caveat.

pub mod anonymise;
pub(crate) mod beside;
pub mod decode;
pub mod filter;
pub mod read;
mod relabel;
pub mod running;
pub mod store;
#[cfg(test)]
mod tests;
pub mod write;

pub use relabel::relabel;
pub use store::Captured;

use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::capture::Capture;
use std::io;

/// IP from its first byte on, without a link header (`LINKTYPE_RAW`).
pub const LINK_RAW: u16 = 101;

/// One packet of a file, or on its way to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// In the order in which the interfaces were named.
    pub interface: u32,
    /// Of that interface; numbers of the tcpdump group's registry.
    pub link_type: u16,
    /// Since 1970, UTC.
    pub at_ns: u64,
    /// On the wire.
    pub original_bytes: u32,
    /// Whoever captured sent it; absent: not said.
    pub outgoing: Option<bool>,
    pub bytes: &'a [u8],
}

/// Why nothing was captured at this end, and what to do.
pub fn missing(error: &io::Error) -> Caveat {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "it needs CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` on the program"
        }
        _ => "the kernel must have packet sockets (CONFIG_PACKET) and room for a ring of 8 MiB",
    };
    Caveat::new(
        "capture_missing",
        format!("no capture: cannot open a packet socket: {error}; {hint}"),
    )
}

/// What a reader of a capture must know of its holes.
pub fn caveats(capture: &Capture) -> Vec<Caveat> {
    let dropped = capture.dropped_packets.filter(|dropped| *dropped > 0);
    let told = dropped.map(|dropped| {
        let text = format!(
            "the kernel dropped {dropped} packets of the capture for want of room: it has holes"
        );
        Caveat::new("capture_incomplete", text)
    });
    told.into_iter().collect()
}

/// The far end makes no capture; why.
pub fn refused(why: &str) -> Caveat {
    Caveat::new("capture_refused", format!("no capture: {why}"))
}
