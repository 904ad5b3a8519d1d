//! Parses packets: their headers, how they divide into segments, and their addresses.
//!
//! Reads the 10-byte virtio_net_hdr and the IP header that a TUN or AF_PACKET device gives with
//! each packet. Source: Linux `include/uapi/linux/virtio_net.h` (fields native little-endian;
//! offsets relative to the frame, so 14 bytes further with an Ethernet header), RFC 791, 8200,
//! 9293, 768. Inconsistent packets are rejected here, so the rest of the engine may trust a
//! `PooledPacket`. IPv6 extension headers and IP fragments are carried unparsed, as one segment.
//!
//! # Packet unit
//!
//! The unit that moves through the path: consecutive segments of one packet that travel together.
//!
//! A super-packet (TSO, USO) stays one unit while nothing happens to it; loss, a full queue, a
//! policer or the quantum of a slow link cut it between two segments. Times are those at which the
//! first and the last segment have fully arrived.
//!
//! # Packet pool
//!
//! The memory pool of packets: each is held until its last segment has left the path.
//!
//! A packet is read into the reserved space. A long one keeps that space, and the next one gets
//! another, if possible one whose packet is gone; a short one is moved to memory of its own length,
//! so that a path full of acknowledgements takes no more than its bytes.

use super::Nanos;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketUnit {
    /// The index in the packet table; every unit with segments holds one reference.
    pub packet: u32,
    pub first: u16,
    pub count: u16,
    pub from: Nanos,
    pub until: Nanos,
}

impl PacketUnit {
    /// Returns the arrival time of segment `index` (0 is this unit's first). Segments between the
    /// first and the last are spaced by their bytes, as on a wire.
    pub fn arrival(&self, index: u16, shape: &SegmentSizes) -> Nanos {
        let index = u64::from(index);
        let after = u64::from(self.count.saturating_sub(1));
        if index >= after || self.from == self.until {
            return self.until;
        }
        let full = u64::from(shape.full);
        let all = (after - 1) * full + shape.last_bytes(self);
        let part = u128::from(self.until - self.from) * u128::from(index * full);
        self.from + (part / u128::from(all.max(1))) as u64
    }

    /// Returns the arrival time of the segment before the last, which a short last one cannot
    /// overtake.
    pub fn second_last_arrival(&self, shape: &SegmentSizes) -> Option<Nanos> {
        (self.count > 1).then(|| self.arrival(self.count - 2, shape))
    }

    /// Splits off the first `n` segments; the caller adds a reference for the new unit.
    pub fn take_front(&mut self, n: u16, shape: &SegmentSizes) -> PacketUnit {
        debug_assert!(n <= self.count, "a unit holds its segments only");
        let mut front = PacketUnit { count: n, ..*self };
        let (end, next) = (n.saturating_sub(1), n.min(self.count.saturating_sub(1)));
        front.until = self.arrival(end, shape);
        self.from = self.arrival(next, shape);
        if front.count == 1 {
            front.from = front.until;
        }
        self.first += n;
        self.count -= n;
        front
    }

    pub fn delayed(self, by: Nanos) -> PacketUnit {
        PacketUnit {
            from: self.from.saturating_add(by),
            until: self.until.saturating_add(by),
            ..self
        }
    }
}

/// The sizes of a packet's segments in IP bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentSizes {
    /// The size of every segment except the last.
    pub full: u32,
    pub last: u32,
    pub segments: u16,
}

impl SegmentSizes {
    pub fn ends_with(&self, unit: &PacketUnit) -> bool {
        u32::from(unit.first) + u32::from(unit.count) == u32::from(self.segments)
    }

    pub fn first_bytes(&self, unit: &PacketUnit) -> u64 {
        u64::from(if unit.count == 1 && self.ends_with(unit) { self.last } else { self.full })
    }

    pub fn last_bytes(&self, unit: &PacketUnit) -> u64 {
        u64::from(if self.ends_with(unit) { self.last } else { self.full })
    }

    pub fn bytes(&self, unit: &PacketUnit) -> u64 {
        match u64::from(unit.count) {
            0 => 0,
            count => (count - 1) * u64::from(self.full) + self.last_bytes(unit),
        }
    }

    /// Returns how many of the unit's segments fit into `room` bytes, each with `overhead` added.
    pub fn count_fitting(&self, unit: &PacketUnit, room: u64, overhead: u64) -> u16 {
        let each = u64::from(self.full) + overhead;
        let mut fit = (room / each.max(1)).min(u64::from(unit.count));
        let but_last = (u64::from(unit.count) - 1) * each;
        if fit + 1 == u64::from(unit.count) && but_last + self.last_bytes(unit) + overhead <= room {
            fit += 1;
        }
        fit as u16
    }
}

/// The space for one packet: virtio_net_hdr, Ethernet header and 64 KiB of IP, rounded up.
pub(super) const RESERVED: usize = 66 * 1024;
/// A packet that is not longer is moved out of the space into which it was read.
const SHORT_BYTES: usize = 16 * 1024;
/// The limit of the memory: 10 Gbit/s at 436 ms and its queues need a quarter of it.
const MAX_BYTES: u64 = 4 << 30;

struct PoolSlot {
    packet: PooledPacket,
    bytes: Vec<u8>,
    references: u32,
}

pub(super) struct PacketPool {
    slots: Vec<PoolSlot>,
    free_slots: Vec<u32>,
    reserved: Vec<u8>,
    /// Spaces to be reserved again.
    spaces: Vec<Vec<u8>>,
    held_bytes: u64,
    max_bytes: u64,
    /// The last reserved space cannot be committed, so that the packet in it is lost.
    pub is_full: bool,
}

impl PacketPool {
    pub fn new() -> PacketPool {
        PacketPool::with_limit(MAX_BYTES)
    }

    /// Creates a pool that holds at most `max_bytes` of packets.
    pub fn with_limit(max_bytes: u64) -> PacketPool {
        PacketPool {
            slots: Vec::new(),
            free_slots: Vec::new(),
            reserved: vec![0; RESERVED],
            spaces: Vec::new(),
            held_bytes: 0,
            max_bytes,
            is_full: false,
        }
    }

    pub fn reserve(&mut self) -> &mut [u8] {
        self.is_full = self.held_bytes >= self.max_bytes;
        &mut self.reserved
    }

    /// Returns the first `len` bytes of the last reserved space.
    pub fn reserved(&self, len: usize) -> &[u8] {
        &self.reserved[..len.min(RESERVED)]
    }

    /// Keeps the `len` bytes of the reserved space that hold `packet`. The result represents one
    /// reference.
    pub fn commit(&mut self, len: usize, packet: PooledPacket) -> u32 {
        let bytes = if len > SHORT_BYTES {
            let next = self.spaces.pop().unwrap_or_else(|| vec![0; RESERVED]);
            std::mem::replace(&mut self.reserved, next)
        } else {
            self.reserved[..len].to_vec()
        };
        self.held_bytes += bytes.len() as u64;
        let slot = PoolSlot { packet, bytes, references: 1 };
        let Some(index) = self.free_slots.pop() else {
            self.slots.push(slot);
            return self.slots.len() as u32 - 1;
        };
        let gone = std::mem::replace(&mut self.slots[index as usize], slot);
        if gone.bytes.len() == RESERVED {
            self.spaces.push(gone.bytes);
        }
        index
    }

    pub fn get(&self, packet: u32) -> &PooledPacket {
        &self.slots[packet as usize].packet
    }

    /// Returns the IP packet as it was sent.
    pub fn bytes(&self, packet: u32) -> &[u8] {
        let slot = &self.slots[packet as usize];
        let from = slot.packet.start as usize;
        &slot.bytes[from..from + slot.packet.len as usize]
    }

    /// Splits off the first `n` segments as a separate unit; `None` for no segments. Both units
    /// then hold a reference, the rest even when it is empty.
    pub fn cut(&mut self, unit: &mut PacketUnit, n: u16) -> Option<PacketUnit> {
        if n == 0 {
            return None;
        }
        let slot = &mut self.slots[unit.packet as usize];
        slot.references += 1;
        Some(unit.take_front(n, &slot.packet.shape))
    }

    /// Releases a unit's reference. The bytes stay readable until the next packet is committed.
    pub fn release(&mut self, unit: &PacketUnit) {
        let slot = &mut self.slots[unit.packet as usize];
        slot.references -= 1;
        if slot.references == 0 {
            self.held_bytes -= slot.bytes.len() as u64;
            self.free_slots.push(unit.packet);
        }
    }

    /// Returns the number of packets with at least one segment still in flight.
    #[cfg(test)]
    pub fn in_flight_packets(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    pub fn memory_bytes(&self) -> u64 {
        let bytes: usize = self.slots.iter().map(|slot| slot.bytes.len()).sum();
        let spaces = (1 + self.spaces.len()) * RESERVED;
        (bytes + spaces + self.slots.capacity() * size_of::<PoolSlot>()) as u64
    }
}
