//! Headers for the segments of a unit that leaves the path.
//!
//! A unit that is a whole packet keeps its headers except for TTL and IPv4 checksum. A part of a
//! packet gets the headers that the sender's kernel would have given it: IP length and
//! identification, TCP sequence number, FIN and PSH on the last segment only, CWR on the first
//! only, UDP length, and a new pseudo-header sum. The virtio_net_hdr still requests the checksum,
//! so the payload is never read. Source: Linux `tcp_gso_segment`, `__udp_gso_segment`,
//! `virtio_net_hdr_to_skb`.

use super::pooled_packet::{
    GSO_ECN, NEEDS_CHECKSUM, PacketUnit, PooledPacket, TCP, UDP, VNET_BYTES,
};
use std::ops::Range;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Returns the range of the IP packet that is the unit's payload.
pub(super) fn find_payload_range(packet: &PooledPacket, unit: &PacketUnit) -> Range<usize> {
    let header = usize::from(packet.header_bytes);
    let len = packet.len as usize;
    let size = usize::from(packet.offload.gso_size);
    if size == 0 {
        return header..len;
    }
    let from = header + usize::from(unit.first) * size;
    from..(from + usize::from(unit.count) * size).min(len)
}

/// Appends the virtio_net_hdr, with offsets relative to a frame with `l2` bytes of Ethernet.
pub(super) fn push_vnet_header(
    out: &mut Vec<u8>,
    packet: &PooledPacket,
    unit: &PacketUnit,
    l2: usize,
) {
    let offload = &packet.offload;
    let mut it = [0u8; VNET_BYTES];
    it[0] = offload.flags;
    if unit.count > 1 {
        it[1] = if unit.first == 0 { offload.gso_type } else { offload.gso_type & !GSO_ECN };
        it[2..4].copy_from_slice(&(packet.header_bytes + l2 as u16).to_le_bytes());
        it[4..6].copy_from_slice(&offload.gso_size.to_le_bytes());
    }
    if offload.flags & NEEDS_CHECKSUM != 0 {
        it[6..8].copy_from_slice(&(offload.checksum_start + l2 as u16).to_le_bytes());
        it[8..10].copy_from_slice(&offload.checksum_offset.to_le_bytes());
    }
    out.extend_from_slice(&it);
}

/// Appends the unit's IP header and, for a segmentable packet, its transport header; `ip` is the
/// packet.
pub(super) fn push_headers(
    out: &mut Vec<u8>,
    packet: &PooledPacket,
    ip: &[u8],
    unit: &PacketUnit,
    ttl: u8,
) {
    let at = out.len();
    out.extend_from_slice(&ip[..usize::from(packet.header_bytes)]);
    let header = &mut out[at..];
    let network = usize::from(packet.ip_header_bytes);
    let payload = find_payload_range(packet, unit);
    let is_part = unit.count != packet.shape.segments;
    if packet.source.is_ipv4() {
        header[8] = ttl;
        if is_part {
            let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(unit.first);
            let total = (header.len() + payload.len()) as u16;
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[4..6].copy_from_slice(&id.to_be_bytes());
        }
        super::write_ipv4_checksum(&mut header[..network]);
    } else {
        header[7] = ttl;
        if is_part {
            let length = header.len() - network + payload.len();
            header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        }
    }
    if is_part {
        rewrite_transport(header, packet, unit, payload);
    }
}

fn rewrite_transport(
    header: &mut [u8],
    packet: &PooledPacket,
    unit: &PacketUnit,
    payload: Range<usize>,
) {
    let network = usize::from(packet.ip_header_bytes);
    let addresses = if packet.source.is_ipv4() { 12..20 } else { 8..40 };
    let length = header.len() - network + payload.len();
    let pseudo =
        super::fold_sum(super::sum_pseudo_header(&header[addresses], packet.protocol, length));
    let transport = &mut header[network..];
    match packet.protocol {
        TCP => {
            let offset = (payload.start - usize::from(packet.header_bytes)) as u32;
            let old = [transport[4], transport[5], transport[6], transport[7]];
            let sequence = u32::from_be_bytes(old).wrapping_add(offset);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            if !packet.shape.ends_with(unit) {
                transport[13] &= !FIN_PSH;
            }
            if unit.first > 0 {
                transport[13] &= !CWR;
            }
        }
        UDP => transport[4..6].copy_from_slice(&(length as u16).to_be_bytes()),
        _ => {}
    }
    let field = usize::from(packet.offload.checksum_offset);
    transport[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
}

/// Completes the transport checksum that the sender left to the device, in an IP packet consisting
/// of the unit's headers and payload.
pub(super) fn complete_checksum(ip: &mut [u8], packet: &PooledPacket) {
    if packet.offload.flags & NEEDS_CHECKSUM == 0 {
        return;
    }
    let start = usize::from(packet.offload.checksum_start);
    let field = start + usize::from(packet.offload.checksum_offset);
    let value = match super::compute_checksum(&ip[start..]) {
        // In UDP zero means "no checksum".
        0 if packet.protocol == UDP => 0xffff,
        value => value,
    };
    ip[field..field + 2].copy_from_slice(&value.to_be_bytes());
}
