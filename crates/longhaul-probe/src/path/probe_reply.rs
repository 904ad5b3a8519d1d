//! Parses answers to probes without trusting them: pure functions of bytes.
//!
//! A decoder returns a [`ProbeReply`] or nothing. [`reply_matching::match_probe_key`] then finds the probe that a reply
//! answers and accepts only what matches the flow: its addresses, ports and tag. Sources: RFC 792,
//! 4443, 4884 (extensions), 4950 (MPLS labels), 9293.

mod icmp_extension;
mod quoted_packet;
mod reply_kind;
pub mod reply_matching;
mod reply_source;
#[cfg(test)]
mod tests;

pub use longhaul_sys::probe_socket::QueuedIcmpInfo;
pub use quoted_packet::{IpHeader, ProbeMark, QuotedProbe, QuotedTransport};
pub use reply_kind::ReplyKind;
pub(super) use reply_source::ReplySource;

use super::probe_packet::{fold_checksum, sum_words};
use longhaul_model::report::v1::path::{MplsLabel, ProbeProtocol};
pub(crate) use quoted_packet::{read_array_at, read_u16_at, read_u32_at};
use std::net::IpAddr;

/// An answer to a probe, as parsed; not yet matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReply {
    pub from: IpAddr,
    /// TTL or hop limit on arrival.
    pub ttl: Option<u8>,
    pub kind: ReplyKind,
    pub probe: QuotedProbe,
    /// Label stack of the router's packet, outermost first.
    pub mpls: Vec<MplsLabel>,
}

impl ProbeReply {
    fn from_destination(
        from: IpAddr,
        ttl: Option<u8>,
        kind: ReplyKind,
        probe: QuotedProbe,
    ) -> ProbeReply {
        ProbeReply { from, ttl, kind, probe, mpls: Vec::new() }
    }
}

/// Parses an IPv4 packet with an ICMP message.
pub fn parse_icmp_v4(packet: &[u8]) -> Option<ProbeReply> {
    let head = IpHeader::parse_v4(packet)?;
    let message = packet.get(head.bytes..)?;
    if head.protocol != 1 || fold_checksum(sum_words(message)) != 0xffff {
        return None;
    }
    parse_icmp(message, head.source, Some(head.ttl))
}

/// Parses an ICMPv6 message whose checksum the kernel has verified, or a ping socket's message.
pub fn parse_icmp(message: &[u8], from: IpAddr, ttl: Option<u8>) -> Option<ProbeReply> {
    let [kind, code] = read_array_at(message, 0)?;
    let v4 = from.is_ipv4();
    if kind == if v4 { 0 } else { 129 } {
        return parse_echo_reply(message, from, ttl);
    }
    let kind = ReplyKind::from_icmp(v4, kind, code, read_u32_at(message, 4)?)?;
    let (quoted, extensions) = icmp_extension::split_extensions(message, v4)?;
    Some(ProbeReply {
        from,
        ttl,
        kind,
        probe: QuotedProbe::from_packet(quoted, v4)?,
        mpls: extensions.map(icmp_extension::parse_mpls_stack).unwrap_or_default(),
    })
}

fn parse_echo_reply(message: &[u8], from: IpAddr, ttl: Option<u8>) -> Option<ProbeReply> {
    let transport = QuotedTransport {
        protocol: ProbeProtocol::Icmp,
        source_id: read_u16_at(message, 4)?,
        destination_port: None,
        number: read_u16_at(message, 6)?.into(),
        options: None,
    };
    let mark = ProbeMark::parse(message.get(8..)?);
    let probe = QuotedProbe { ip: None, transport: Some(transport), mark };
    Some(ProbeReply::from_destination(from, ttl, ReplyKind::EchoReply, probe))
}

/// Parses a datagram that repeats a probe, as an echo service sends it.
pub fn parse_echoed_datagram(payload: &[u8], from: IpAddr, ttl: Option<u8>) -> Option<ProbeReply> {
    let mark = Some(ProbeMark::parse(payload)?);
    let probe = QuotedProbe { ip: None, transport: None, mark };
    Some(ProbeReply::from_destination(from, ttl, ReplyKind::EchoReply, probe))
}

/// Parses an error from the error queue of one socket. `quoted` is the quoted packet: for UDP its
/// payload, for the echo request of a ping socket (`echo`) from the ICMP header on.
pub fn parse_queued_error(
    error: &QueuedIcmpInfo,
    ttl: Option<u8>,
    quoted: &[u8],
    echo: bool,
) -> Option<ProbeReply> {
    let from = error.reported_by?;
    let extensions = error.extensions_at.and_then(|at| quoted.get(at..));
    let quoted = &quoted[..quoted.len() - extensions.map_or(0, <[u8]>::len)];
    Some(ProbeReply {
        from,
        ttl,
        kind: ReplyKind::from_icmp(from.is_ipv4(), error.kind, error.code, error.info)?,
        probe: QuotedProbe::from_error_queue(quoted, echo)?,
        mpls: extensions.map(icmp_extension::parse_mpls_stack).unwrap_or_default(),
    })
}

/// Parses an IPv4 packet with a TCP segment.
pub fn parse_tcp_v4(packet: &[u8]) -> Option<ProbeReply> {
    let head = IpHeader::parse_v4(packet)?;
    if head.protocol != 6 {
        return None;
    }
    parse_tcp(packet.get(head.bytes..)?, head.source, Some(head.ttl))
}

/// Parses a TCP segment; returns `None` if it does not answer a SYN.
pub fn parse_tcp(segment: &[u8], from: IpAddr, ttl: Option<u8>) -> Option<ProbeReply> {
    const SYN: u8 = 0x02;
    const RST: u8 = 0x04;
    const ACK: u8 = 0x10;
    let [flags] = read_array_at(segment, 13)?;
    let kind = match (flags & SYN != 0, flags & RST != 0, flags & ACK != 0) {
        (true, false, true) => ReplyKind::SynAck,
        (false, true, true) => ReplyKind::Reset,
        _ => return None,
    };
    let transport = QuotedTransport {
        protocol: ProbeProtocol::Tcp,
        source_id: read_u16_at(segment, 2)?,
        destination_port: Some(read_u16_at(segment, 0)?),
        number: read_u32_at(segment, 8)?.wrapping_sub(1),
        options: None,
    };
    let probe = QuotedProbe { ip: None, transport: Some(transport), mark: None };
    Some(ProbeReply::from_destination(from, ttl, kind, probe))
}
