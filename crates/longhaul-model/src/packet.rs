//! A packet of a capture, decoded: what the analysis of captures reads.
//!
//! Plain data without any file format. Whoever reads a file makes these, in order of time.

use std::net::SocketAddr;

/// One packet of TCP or UDP over IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Since 1970, UTC.
    pub at_ns: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// From the IP header on, as it was on the wire.
    pub wire_bytes: u32,
    /// Of these, behind the headers of TCP or UDP.
    pub payload_bytes: u32,
    pub payload: Option<PayloadHead>,
    /// The two bits of ECN: 0 not capable, 3 congestion experienced.
    pub ecn: u8,
    pub transport: Transport,
}

/// The first bytes of a payload, where they were captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadHead {
    /// How many bytes stand behind `digest`.
    pub bytes: u32,
    /// Equal bytes have equal digests.
    pub digest: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp(Segment),
}

/// The header of a TCP segment, in the host's byte order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: Flags,
    /// As in the header: the shift of the handshake is not applied.
    pub window: u16,
    pub options: Options,
}

/// The flags of a TCP header, in its lowest nine bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    pub const FIN: u16 = 1;
    pub const SYN: u16 = 2;
    pub const RST: u16 = 4;
    pub const PSH: u16 = 8;
    pub const ACK: u16 = 16;
    pub const URG: u16 = 32;
    pub const ECE: u16 = 64;
    pub const CWR: u16 = 128;

    pub fn has(self, flag: u16) -> bool {
        self.0 & flag == flag
    }
}

/// The options of a TCP header that say something of the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    pub mss_bytes: Option<u16>,
    pub window_shift: Option<u8>,
    pub sack_permitted: bool,
    /// Value, and the peer's value that is echoed.
    pub timestamps: Option<(u32, u32)>,
    /// Blocks of selective acknowledgement.
    pub sack_blocks: u8,
}
