//! Parses packets: their headers, how they divide into segments, and their addresses.
//!
//! Reads the 10-byte virtio_net_hdr and the IP header that a TUN or AF_PACKET device gives with
//! each packet. Source: Linux `include/uapi/linux/virtio_net.h` (fields native little-endian;
//! offsets relative to the frame, so 14 bytes further with an Ethernet header), RFC 791, 8200,
//! 9293, 768. Inconsistent packets are rejected here, so the rest of the engine may trust a
//! `PooledPacket`. IPv6 extension headers and IP fragments are carried unparsed, as one segment.

use super::packet_unit::SegmentSizes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The number of bytes of virtio_net_hdr before each packet.
pub(super) const VNET_BYTES: usize = 10;

pub(super) const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;
pub(super) const GSO_ECN: u8 = 0x80;
pub(super) const GSO_TCP4: u8 = 1;
pub(super) const GSO_TCP6: u8 = 4;
pub(super) const GSO_UDP: u8 = 5;

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP6: u8 = 58;

/// The reason why a packet from a host is not carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketRejection {
    /// Lengths or offsets contradict each other.
    Malformed,
    /// Valid, but not IP, or not between addresses of this path.
    Foreign,
}

/// A packet in the pool, with everything derived from its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PooledPacket {
    /// The offset of the IP header.
    pub start: u32,
    /// IP bytes, header included.
    pub len: u32,
    pub shape: SegmentSizes,
    pub offload: OffloadHeader,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    /// The length of the IP header, without IPv6 extension headers.
    pub ip_header_bytes: u8,
    /// The number of bytes before the payload that every segment repeats.
    pub header_bytes: u16,
    pub fragment: bool,
    /// The TTL or hop limit when it enters the path.
    pub ttl: u8,
    pub chain: u16,
    /// The link of the chain at which it entered.
    pub entry: u16,
    /// The link behind which it leaves the chain: at a host, or at a router that is its destination
    /// or where its TTL expires.
    pub stop: u16,
}

impl PooledPacket {
    /// Returns the IP bytes of all segments, as they are on the wire.
    pub fn ip_bytes(&self) -> u64 {
        let but_last = u64::from(self.shape.segments) - 1;
        but_last * u64::from(self.shape.full) + u64::from(self.shape.last)
    }
}

/// The virtio_net_hdr, with offsets relative to the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OffloadHeader {
    pub flags: u8,
    pub gso_type: u8,
    pub gso_size: u16,
    pub checksum_start: u16,
    pub checksum_offset: u16,
}

fn read_be16(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

fn read_le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The fields of an IP header.
struct NetworkHeader {
    len: usize,
    header_bytes: usize,
    protocol: u8,
    ttl: u8,
    fragment: bool,
    source: IpAddr,
    destination: IpAddr,
}

fn parse_ipv4(ip: &[u8]) -> Result<NetworkHeader, PacketRejection> {
    if ip.len() < 20 {
        return Err(PacketRejection::Malformed);
    }
    let header = usize::from(ip[0] & 15) * 4;
    let len = read_be16(ip, 2);
    if header < 20 || len < header || len > ip.len() {
        return Err(PacketRejection::Malformed);
    }
    let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
    Ok(NetworkHeader {
        len,
        header_bytes: header,
        protocol: ip[9],
        ttl: ip[8],
        fragment: read_be16(ip, 6) & 0x3fff != 0,
        source: IpAddr::V4(address(12)),
        destination: IpAddr::V4(address(16)),
    })
}

fn parse_ipv6(ip: &[u8]) -> Result<NetworkHeader, PacketRejection> {
    let (Some(source), Some(destination)) = (
        ip.get(8..24).and_then(|a| <[u8; 16]>::try_from(a).ok()),
        ip.get(24..40).and_then(|a| <[u8; 16]>::try_from(a).ok()),
    ) else {
        return Err(PacketRejection::Malformed);
    };
    let len = 40 + read_be16(ip, 4);
    if len > ip.len() {
        return Err(PacketRejection::Malformed);
    }
    Ok(NetworkHeader {
        len,
        header_bytes: 40,
        protocol: ip[6],
        ttl: ip[7],
        fragment: false,
        source: IpAddr::V6(Ipv6Addr::from(source)),
        destination: IpAddr::V6(Ipv6Addr::from(destination)),
    })
}

/// Returns the length of the transport header, or `None` if the packet cannot be segmented.
fn measure_transport_header(network: &NetworkHeader, ip: &[u8]) -> Option<usize> {
    let rest = &ip[network.header_bytes..network.len];
    let bytes = match network.protocol {
        _ if network.fragment => return None,
        TCP => usize::from(*rest.get(12)? >> 4) * 4,
        UDP => 8,
        _ => return None,
    };
    let least = if network.protocol == TCP { 20 } else { 8 };
    (bytes >= least && bytes <= rest.len()).then_some(bytes)
}

fn parse_offload(
    frame: &[u8],
    l2: usize,
    network: &NetworkHeader,
) -> Result<OffloadHeader, PacketRejection> {
    let mut it = OffloadHeader {
        flags: frame[0] & (NEEDS_CHECKSUM | DATA_VALID),
        gso_type: frame[1],
        gso_size: read_le16(frame, 4),
        ..OffloadHeader::default()
    };
    if it.gso_type & !GSO_ECN == 0 {
        it.gso_type = 0;
        it.gso_size = 0;
    }
    if it.flags & NEEDS_CHECKSUM == 0 {
        return Ok(it);
    }
    it.checksum_start =
        read_le16(frame, 6).checked_sub(l2 as u16).ok_or(PacketRejection::Malformed)?;
    it.checksum_offset = read_le16(frame, 8);
    let field = usize::from(it.checksum_start) + usize::from(it.checksum_offset);
    let sound = usize::from(it.checksum_start) >= network.header_bytes && field + 2 <= network.len;
    if sound { Ok(it) } else { Err(PacketRejection::Malformed) }
}

/// Returns the packet's segment sizes and the number of bytes that every segment repeats.
fn compute_segments(
    network: &NetworkHeader,
    offload: OffloadHeader,
    ip: &[u8],
) -> Result<(SegmentSizes, usize), PacketRejection> {
    let len = network.len as u32;
    if offload.gso_type == 0 {
        return Ok((SegmentSizes { full: len, last: len, segments: 1 }, network.header_bytes));
    }
    let expected = match (offload.gso_type & !GSO_ECN, network.protocol, network.source) {
        (GSO_TCP4, TCP, IpAddr::V4(_)) | (GSO_TCP6, TCP, IpAddr::V6(_)) => 16,
        (GSO_UDP, UDP, _) => 6,
        _ => return Err(PacketRejection::Malformed),
    };
    let transport = measure_transport_header(network, ip).ok_or(PacketRejection::Malformed)?;
    let header = network.header_bytes + transport;
    let checksum_fits = offload.flags & NEEDS_CHECKSUM != 0
        && usize::from(offload.checksum_start) == network.header_bytes
        && offload.checksum_offset == expected;
    let size = usize::from(offload.gso_size);
    let payload = network.len - header;
    if !checksum_fits || size == 0 || payload == 0 {
        return Err(PacketRejection::Malformed);
    }
    let segments = payload.div_ceil(size);
    let last = header + payload - (segments - 1) * size;
    let full = if segments == 1 { last } else { header + size };
    Ok((SegmentSizes { full: full as u32, last: last as u32, segments: segments as u16 }, header))
}

/// Parses a frame as the device gave it: virtio_net_hdr, `l2` bytes of Ethernet, IP.
pub(super) fn parse_frame(frame: &[u8], l2: usize) -> Result<PooledPacket, PacketRejection> {
    let start = VNET_BYTES + l2;
    let ip = frame.get(start..).filter(|ip| !ip.is_empty()).ok_or(PacketRejection::Malformed)?;
    let version = ip[0] >> 4;
    if l2 > 0 {
        match (read_be16(frame, start - 2), version) {
            (0x0800, 4) | (0x86dd, 6) => {}
            (0x0800 | 0x86dd, _) => return Err(PacketRejection::Malformed),
            _ => return Err(PacketRejection::Foreign),
        }
    }
    let network = match version {
        4 => parse_ipv4(ip)?,
        6 => parse_ipv6(ip)?,
        _ => return Err(PacketRejection::Malformed),
    };
    let offload = parse_offload(frame, l2, &network)?;
    let (shape, header) = compute_segments(&network, offload, ip)?;
    Ok(PooledPacket {
        start: start as u32,
        len: network.len as u32,
        shape,
        offload,
        source: network.source,
        destination: network.destination,
        protocol: network.protocol,
        ip_header_bytes: network.header_bytes as u8,
        header_bytes: header as u16,
        fragment: network.fragment,
        ttl: network.ttl,
        chain: 0,
        entry: 0,
        stop: 0,
    })
}
