//! A decoded packet, the input of the capture analysis.
//!
//! Plain data, independent of any file format. File readers produce packets in time order.

use std::net::SocketAddr;

/// One TCP or UDP packet over IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedPacket {
    /// Time since 1970, UTC.
    pub at_ns: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Length on the wire, from the IP header on.
    pub wire_bytes: u32,
    /// Length of the payload behind the TCP or UDP header.
    pub payload_bytes: u32,
    pub payload: Option<PayloadHead>,
    /// The two ECN bits: 0 not capable, 3 congestion experienced.
    pub ecn: u8,
    /// The time to live, or hop limit, that was left at the capture point.
    pub hop_limit: u8,
    pub transport: PacketTransport,
}

/// The captured start of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadHead {
    /// The number of bytes covered by `digest`.
    pub bytes: u32,
    /// Equal bytes have equal digests.
    pub digest: u64,
    /// True: begins as the identification string of SSH does (RFC 4253 section 4.2).
    pub is_ssh: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketTransport {
    Udp,
    Tcp(TcpHeader),
}

/// The header of a TCP segment, in the host's byte order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpHeader {
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: TcpFlags,
    /// As in the header, before window scaling.
    pub window: u16,
    pub options: TcpHeaderOptions,
}

/// The lowest nine bits of the TCP header's flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
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

/// The TCP header options that describe the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpHeaderOptions {
    pub mss_bytes: Option<u16>,
    pub window_shift: Option<u8>,
    pub sack_permitted: bool,
    /// The timestamp value and the echo reply.
    pub timestamps: Option<(u32, u32)>,
    /// The number of SACK blocks.
    pub sack_blocks: u8,
    /// The edges of the first SACK block. A block below the acknowledgement reports a duplicate (RFC
    /// 2883).
    pub first_sack: Option<(u32, u32)>,
}
