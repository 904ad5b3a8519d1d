//! ICMP errors and echo replies that routers send.
//!
//! Source: RFC 792, 1812 (4.3.2), 4443; MPLS labels as in RFC 4884 and 4950. Errors quote the first
//! 128 bytes of the packet as it was on the wire; an error is never answered with an error.

use super::pooled_packet::{ICMP, ICMP6, PacketUnit, PooledPacket};
use super::{middlebox, segment_headers};
use crate::path_spec::OptionRewrite;
use std::net::IpAddr;

const QUOTED: usize = 128;
/// The TTL with which routers send.
const ROUTER_TTL: u8 = 255;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST6: u8 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IcmpErrorKind {
    TimeExceeded,
    PortUnreachable,
    ProtocolUnreachable,
    TooBig { mtu: u32 },
}

impl IcmpErrorKind {
    /// Returns type, code and second word for IPv4.
    fn ipv4_words(self) -> (u8, u8, u32) {
        match self {
            IcmpErrorKind::TimeExceeded => (11, 0, 0),
            IcmpErrorKind::ProtocolUnreachable => (3, 2, 0),
            IcmpErrorKind::PortUnreachable => (3, 3, 0),
            IcmpErrorKind::TooBig { mtu } => (3, 4, mtu.min(0xffff)),
        }
    }

    /// Returns type, code and second word for IPv6; an unknown protocol points at the next-header
    /// field.
    fn ipv6_words(self) -> (u8, u8, u32) {
        match self {
            IcmpErrorKind::PortUnreachable => (1, 4, 0),
            IcmpErrorKind::TooBig { mtu } => (2, 0, mtu),
            IcmpErrorKind::TimeExceeded => (3, 0, 0),
            IcmpErrorKind::ProtocolUnreachable => (4, 1, 6),
        }
    }
}

fn read_icmp_type(packet: &PooledPacket, ip: &[u8]) -> Option<u8> {
    let is_icmp = match packet.source {
        IpAddr::V4(_) => packet.protocol == ICMP,
        IpAddr::V6(_) => packet.protocol == ICMP6,
    };
    is_icmp.then(|| ip.get(usize::from(packet.ip_header_bytes)).copied()).flatten()
}

/// Reports whether a router may answer this packet with an error.
pub(super) fn may_be_answered(packet: &PooledPacket, ip: &[u8]) -> bool {
    let is_error = match (packet.source, read_icmp_type(packet, ip)) {
        (_, None) => packet.protocol == ICMP || packet.protocol == ICMP6,
        (IpAddr::V4(_), Some(kind)) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (IpAddr::V6(_), Some(kind)) => kind < 128,
    };
    !packet.fragment && !is_error
}

pub(super) fn is_echo_request(packet: &PooledPacket, ip: &[u8]) -> bool {
    let wanted = if packet.source.is_ipv4() { ECHO_REQUEST } else { ECHO_REQUEST6 };
    !packet.fragment && read_icmp_type(packet, ip) == Some(wanted)
}

/// Writes the IP packet that reports `message` about `packet_unit`, which had `ttl` left.
pub(super) fn write_icmp_error(
    out: &mut Vec<u8>,
    cause: &IcmpErrorCause,
    from: IpAddr,
    message: IcmpErrorKind,
) {
    out.clear();
    push_ip_header(out, from, cause.packet.source);
    let (kind, code, word) =
        if from.is_ipv4() { message.ipv4_words() } else { message.ipv6_words() };
    let icmp = out.len();
    out.extend_from_slice(&[kind, code, 0, 0]);
    out.extend_from_slice(&word.to_be_bytes());
    let quote = out.len();
    let first = PacketUnit { count: 1, ..cause.unit };
    let (packet, ip) = (cause.packet, cause.ip);
    segment_headers::push_headers(out, packet, ip, &first, cause.ttl);
    out.extend_from_slice(&ip[segment_headers::find_payload_range(packet, &first)]);
    segment_headers::complete_checksum(&mut out[quote..], packet);
    if let Some(change) = cause.rewritten
        && middlebox::is_rewritable(packet, ip)
    {
        middlebox::rewrite_options(&mut out[quote..], packet, change, true);
    }
    out.truncate(quote + QUOTED);
    // "Packet too big" has no field that says where extensions begin.
    if !cause.labels.is_empty() && !matches!(message, IcmpErrorKind::TooBig { .. }) {
        out.resize(quote + QUOTED, 0);
        // The length of the quoted packet: in 32-bit words, for IPv6 in 64-bit words.
        let (at, words) = if from.is_ipv4() { (5, QUOTED / 4) } else { (4, QUOTED / 8) };
        out[icmp + at] = words as u8;
        push_labels(out, cause.labels);
    }
    finish_icmp_packet(out, icmp, from);
}

/// Appends the extension structure with one object, the label stack.
fn push_labels(out: &mut Vec<u8>, labels: &[u32]) {
    let begin = out.len();
    // Version 2, and room for the checksum.
    out.extend_from_slice(&[0x20, 0, 0, 0]);
    let length = 4 + 4 * labels.len() as u16;
    out.extend_from_slice(&length.to_be_bytes());
    // Class 1, MPLS label stack; type 1, incoming.
    out.extend_from_slice(&[1, 1]);
    for (index, label) in labels.iter().enumerate() {
        let is_bottom = u32::from(index + 1 == labels.len());
        // The label's TTL was also 1.
        out.extend_from_slice(&(label << 12 | is_bottom << 8 | 1).to_be_bytes());
    }
    let value = super::compute_checksum(&out[begin..]);
    out[begin + 2..begin + 4].copy_from_slice(&value.to_be_bytes());
}

/// A packet to which a router responds.
pub(super) struct IcmpErrorCause<'a> {
    pub packet: &'a PooledPacket,
    pub ip: &'a [u8],
    pub unit: PacketUnit,
    pub ttl: u8,
    /// The rewrites by the middleboxes before the router.
    pub rewritten: Option<OptionRewrite>,
    /// The MPLS labels of the responding router.
    pub labels: &'a [u32],
}

/// Writes the answer to an echo request.
pub(super) fn write_echo_reply(out: &mut Vec<u8>, packet: &PooledPacket, ip: &[u8]) {
    out.clear();
    push_ip_header(out, packet.destination, packet.source);
    let icmp = out.len();
    out.extend_from_slice(&ip[usize::from(packet.ip_header_bytes)..]);
    out[icmp] = if packet.source.is_ipv4() { 0 } else { 129 };
    finish_icmp_packet(out, icmp, packet.destination);
}

fn push_ip_header(out: &mut Vec<u8>, from: IpAddr, to: IpAddr) {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // Precedence "internetwork control" (RFC 1812, 4.3.2.5).
            out.extend_from_slice(&[0x45, 0xc0, 0, 0, 0, 0, 0, 0, ROUTER_TTL, ICMP, 0, 0]);
            out.extend([from.octets(), to.octets()].concat());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.extend_from_slice(&[0x60, 0, 0, 0, 0, 0, ICMP6, ROUTER_TTL]);
            out.extend([from.octets(), to.octets()].concat());
        }
        // A router answers from its address of the packet's own family.
        _ => {}
    }
}

/// Fills in lengths and checksums of an ICMP packet whose message begins at `icmp`.
pub(super) fn finish_icmp_packet(out: &mut [u8], icmp: usize, from: IpAddr) {
    let length = out.len() - icmp;
    out[icmp + 2..icmp + 4].fill(0);
    let start = if from.is_ipv4() {
        let total = out.len() as u16;
        out[2..4].copy_from_slice(&total.to_be_bytes());
        super::write_ipv4_checksum(&mut out[..icmp]);
        0
    } else {
        out[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        super::sum_pseudo_header(&out[8..40], ICMP6, length)
    };
    let value = !super::fold_sum(super::add_words(start, &out[icmp..]));
    out[icmp + 2..icmp + 4].copy_from_slice(&value.to_be_bytes());
}
