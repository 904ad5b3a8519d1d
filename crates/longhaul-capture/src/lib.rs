//! Packet captures, for programs that need the packets of their own connections or read capture
//! files.
//!
//! Packets go from the kernel to a pcapng file without a disk in between. Files of any origin are
//! read, damaged ones up to the damage.
//!
//! - [`capture_thread`]: the thread that captures during a run; [`bpf_filter`]: the packet filter
//! - [`packet_buffer`]: the bounded packet buffer
//! - [`pcapng_writer`]: writes pcapng; [`capture_reader`]: reads pcapng and pcap, damaged files too
//! - [`decode`]: turns a packet's bytes into plain data for the analysis
//! - [`compressed_input`]: decompresses files of gzip, xz and zstd
//!
//! A capture never fails a run: missing data becomes a caveat. The crate knows neither sessions nor the
//! protocol between the two ends.

#![forbid(unsafe_code)]

pub mod bpf_filter;
pub mod capture_reader;
mod capture_rewrite;
pub mod capture_thread;
pub mod compressed_input;
pub mod decode;
pub mod packet_buffer;
pub mod pcapng_writer;
#[cfg(test)]
mod tests;

pub use capture_rewrite::rewrite_capture;
pub use packet_buffer::FinishedCapture;

use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::capture::CaptureResult;
use std::io;

/// `LINKTYPE_RAW`: a packet begins with its IP header, without a link header.
pub const LINK_RAW: u16 = 101;

/// The application in the files that this crate writes.
const APPLICATION: &str = concat!("longhaul ", env!("CARGO_PKG_VERSION"));

/// One packet that was read from a capture file or is to be written to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureRecord<'a> {
    /// The index of the interface, in the order in which the file lists them.
    pub interface: u32,
    /// The link type of that interface, as numbered in the tcpdump group's registry.
    pub link_type: u16,
    /// Nanoseconds since 1970, UTC.
    pub at_ns: u64,
    /// The packet's length on the wire.
    pub original_bytes: u32,
    /// Set if the capturing host sent the packet; `None` if the file does not say.
    pub outgoing: Option<bool>,
    pub bytes: &'a [u8],
}

/// Returns a caveat that says why nothing was captured at this end, and what to do.
pub fn capture_missing_caveat(error: &io::Error) -> ReportCaveat {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root, or grant CAP_NET_RAW: `setcap cap_net_raw+ep $(command -v longhaul)`"
        }
        _ => "check that the kernel has packet sockets (CONFIG_PACKET) and 8 MiB for the ring",
    };
    ReportCaveat::new(
        "capture_missing",
        format!("no capture: cannot open a packet socket: {error}; {hint}"),
    )
}

/// Returns the caveats about packets that are missing from a capture.
pub fn capture_caveats(capture: &CaptureResult) -> Vec<ReportCaveat> {
    let dropped = capture.dropped_packets.filter(|dropped| *dropped > 0);
    let told = dropped.map(|dropped| {
        let text = format!(
            "the capture is incomplete: its ring was full and the kernel dropped {dropped} packets"
        );
        ReportCaveat::new("capture_incomplete", text)
    });
    told.into_iter().collect()
}

/// Returns a caveat that says why the server makes no capture.
pub fn capture_refused_caveat(why: &str) -> ReportCaveat {
    ReportCaveat::new("capture_refused", format!("no capture: {why}"))
}
