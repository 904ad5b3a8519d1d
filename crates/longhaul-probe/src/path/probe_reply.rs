//! Parses answers to probes without trusting them: pure functions of bytes.
//!
//! A decoder returns a [`ProbeReply`] or nothing. [`match_probe_key`] then finds the probe that a reply
//! answers and accepts only what matches the flow: its addresses, ports and tag. Sources: RFC 792,
//! 4443, 4884 (extensions), 4950 (MPLS labels), 9293.

mod quoted_packet;

/// Kind of the socket that received a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplySource {
    /// Sends whole IP packets and receives nothing.
    RawPackets,
    Ping,
    RawIcmp,
    /// A UDP socket, with its error queue.
    Udp,
    RawTcp,
}

impl ReplySource {
    /// Returns whether the kernel delivers only our own messages to this socket.
    pub(in crate::path) fn receives_only_own(self) -> bool {
        matches!(self, ReplySource::Ping | ReplySource::Udp)
    }

    /// Parses a message or a queued ICMP error.
    pub(in crate::path) fn parse_reply(
        self,
        arrival: &ProbeArrival,
        bytes: &[u8],
    ) -> Option<ProbeReply> {
        match arrival.queued {
            Some(ErrorQueueEntry::Icmp(error)) => {
                let echo = self == ReplySource::Ping;
                return parse_queued_error(&error, arrival.ttl, bytes, echo);
            }
            Some(_) => return None,
            None => {}
        }
        let from = arrival.from?.ip();
        match (self, from) {
            (ReplySource::RawIcmp, IpAddr::V4(_)) => parse_icmp_v4(bytes),
            (ReplySource::Ping | ReplySource::RawIcmp, _) => parse_icmp(bytes, from, arrival.ttl),
            (ReplySource::RawTcp, IpAddr::V4(_)) => parse_tcp_v4(bytes),
            (ReplySource::RawTcp, IpAddr::V6(_)) => parse_tcp(bytes, from, arrival.ttl),
            (ReplySource::Udp, _) => parse_echoed_datagram(bytes, from, arrival.ttl),
            (ReplySource::RawPackets, _) => None,
        }
    }
}

/// Offset of the extensions of routers older than RFC 4884, which do not state it.
const PRE_RFC4884_OFFSET: usize = 128;
/// The maximum number of parsed labels; deeper stacks are not in use.
const MAX_LABELS: usize = 16;
const MPLS: u8 = 1;
const INCOMING_STACK: u8 = 1;

/// Splits an ICMP error into the quoted packet and its extensions.
fn split_extensions(message: &[u8], v4: bool) -> Option<(&[u8], Option<&[u8]>)> {
    let [kind] = read_array_at(message, 0)?;
    let body = message.get(8..)?;
    let [len_v6, len_v4] = read_array_at(message, 4)?;
    let quoted_bytes = match (v4, kind) {
        (true, 3 | 11 | 12) => usize::from(len_v4) * 4,
        (false, 1 | 3) => usize::from(len_v6) * 8,
        _ => return Some((body, None)),
    };
    let at = if quoted_bytes == 0 { PRE_RFC4884_OFFSET } else { quoted_bytes };
    match body.get(at..) {
        Some(extensions) if is_valid_extension(extensions, quoted_bytes == 0) => {
            Some((&body[..at], Some(extensions)))
        }
        _ => Some((body, None)),
    }
}

/// Returns whether the extensions have version 2 and a valid checksum. A checksum of zero means
/// none, and is accepted if the offset is known.
fn is_valid_extension(extensions: &[u8], guessed: bool) -> bool {
    let Some([version, _]) = read_array_at(extensions, 0) else {
        return false;
    };
    let unchecked = !guessed && read_u16_at(extensions, 2) == Some(0);
    version >> 4 == 2
        && extensions.len() >= 4
        && (unchecked || fold_checksum(sum_words(extensions)) == 0xffff)
}

/// Returns the labels that the packet arrived with.
fn parse_mpls_stack(extensions: &[u8]) -> Vec<MplsLabel> {
    let mut rest = extensions.get(4..).unwrap_or_default();
    while let (Some(bytes), Some([class, kind])) = (read_u16_at(rest, 0), read_array_at(rest, 2)) {
        let bytes = usize::from(bytes);
        let Some(object) = rest.get(4..bytes) else {
            break;
        };
        if (class, kind) == (MPLS, INCOMING_STACK) {
            let entries = object.chunks_exact(4).take(MAX_LABELS);
            return entries
                .filter_map(|entry| read_u32_at(entry, 0))
                .map(parse_mpls_label)
                .collect();
        }
        rest = &rest[bytes..];
    }
    Vec::new()
}

/// Parses a label (RFC 3032): 20 bits of label, 3 of traffic class, the bottom bit, 8 of TTL.
fn parse_mpls_label(entry: u32) -> MplsLabel {
    MplsLabel { label: entry >> 12, traffic_class: (entry >> 9 & 7) as u8, ttl: entry as u8 }
}

/// The kinds of answers to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    TimeExceeded,
    EchoReply,
    PortUnreachable,
    ProtocolUnreachable,
    HostUnreachable,
    NetUnreachable,
    /// Administratively prohibited.
    Prohibited,
    /// Too big and must not be fragmented; the MTU is 0 if an old router does not report it.
    TooBig {
        mtu_bytes: u32,
    },
    /// Any other unreachable error.
    Unreachable,
    ParameterProblem,
    SynAck,
    Reset,
}

impl ReplyKind {
    /// Classifies an ICMP or ICMPv6 error; `rest` holds the last four bytes of its header.
    fn from_icmp(v4: bool, kind: u8, code: u8, rest: u32) -> Option<ReplyKind> {
        if v4 { classify_icmp_v4(kind, code, rest) } else { classify_icmp_v6(kind, code, rest) }
    }

    /// Returns whether this is an ICMP error, which hosts limit to a few per second.
    pub const fn is_error(self) -> bool {
        !matches!(self, ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset)
    }

    /// Returns the name used in reports.
    pub fn as_str(self) -> &'static str {
        name_variant(&self)
    }
}

/// Classifies ICMPv4 errors (RFC 792, 1122, 1191, 1812).
fn classify_icmp_v4(kind: u8, code: u8, rest: u32) -> Option<ReplyKind> {
    Some(match (kind, code) {
        (11, 0) => ReplyKind::TimeExceeded,
        (3, 0 | 6 | 11) => ReplyKind::NetUnreachable,
        (3, 1 | 7 | 8 | 12) => ReplyKind::HostUnreachable,
        (3, 2) => ReplyKind::ProtocolUnreachable,
        (3, 3) => ReplyKind::PortUnreachable,
        (3, 4) => ReplyKind::TooBig { mtu_bytes: rest & 0xffff },
        (3, 9 | 10 | 13 | 14 | 15) => ReplyKind::Prohibited,
        (3, _) => ReplyKind::Unreachable,
        (12, _) => ReplyKind::ParameterProblem,
        _ => return None,
    })
}

/// Classifies ICMPv6 errors (RFC 4443).
fn classify_icmp_v6(kind: u8, code: u8, rest: u32) -> Option<ReplyKind> {
    Some(match (kind, code) {
        (3, 0) => ReplyKind::TimeExceeded,
        (1, 0) => ReplyKind::NetUnreachable,
        (1, 1 | 5 | 6) => ReplyKind::Prohibited,
        (1, 3) => ReplyKind::HostUnreachable,
        (1, 4) => ReplyKind::PortUnreachable,
        (1, _) => ReplyKind::Unreachable,
        (2, _) => ReplyKind::TooBig { mtu_bytes: rest },
        // An unknown next header.
        (4, 1) => ReplyKind::ProtocolUnreachable,
        (4, _) => ReplyKind::ParameterProblem,
        _ => return None,
    })
}

/// Returns the number of the probe that `reply` answers, if all its fields match the flow.
///
/// Destination address and port must be the flow's. Source address and port may differ behind a
/// NAT; then something that a NAT leaves unchanged must match: the tag, or the number. A tag that
/// can be read must be the flow's.
pub fn match_probe_key(flow: &ProbeFlow, reply: &ProbeReply) -> Option<u16> {
    let probe = &reply.probe;
    let fits =
        |ip: IpHeader| ip.destination == flow.destination && ip.protocol == flow.protocol_number();
    let is_error = reply.kind.is_error();
    if !probe.ip.is_none_or(fits) || (!is_error && reply.from != flow.destination) {
        return None;
    }
    // A readable tag that is not ours rules the answer out.
    let tagged = probe.mark.filter(|mark| mark.tag == flow.tag).map(|mark| mark.key);
    if probe.mark.is_some() && tagged.is_none() {
        return None;
    }
    let Some(transport) = &probe.transport else {
        return tagged.filter(|_| flow.protocol == ProbeProtocol::Udp);
    };
    // A NAT that translates the port also translates the address.
    let translated = probe.ip.is_some_and(|ip| ip.source != flow.source);
    let same_source = transport.source_id == flow.source_id;
    let ports_fit = (same_source || translated)
        && transport.destination_port.is_none_or(|port| port == flow.destination_id);
    if !ports_fit || transport.protocol != flow.protocol {
        return None;
    }
    let number = transport.number as u16;
    match flow.protocol {
        ProbeProtocol::Icmp => {
            let known = tagged.is_some() || (is_error && same_source);
            (known && tagged.is_none_or(|key| key == number)).then_some(number)
        }
        ProbeProtocol::Udp => {
            tagged.or_else(|| match_short_udp(probe.ip.as_ref()?, translated, number))
        }
        ProbeProtocol::Tcp => (flow.sequence(number) == transport.number).then_some(number),
    }
}

/// Matches a quote that ends with the UDP header: both the checksum and the IPv4 identification
/// equal the number, and the latter survives a NAT that changes the checksum.
fn match_short_udp(ip: &IpHeader, translated: bool, checksum: u16) -> Option<u16> {
    match ip.identification {
        None => (!translated && checksum != 0).then_some(checksum),
        Some(number) if number == checksum => Some(number),
        Some(number) if number != 0 && (translated || checksum == 0) => Some(number),
        Some(_) => None,
    }
}

/// Returns the key of the probe that `reply` answers. `flow_of` returns the flow in which the probe
/// with a key was sent.
pub fn find_probe_key(
    reply: &ProbeReply,
    flow_of: impl Fn(u16) -> Option<ProbeFlow>,
) -> Option<u16> {
    candidate_keys(reply)
        .into_iter()
        .flatten()
        .find(|key| flow_of(*key).is_some_and(|flow| match_probe_key(&flow, reply) == Some(*key)))
}

/// Returns whether the reply has the flow's identifier, port or tag, so that it is not another
/// program's.
pub fn claims_flow(flow: &ProbeFlow, reply: &ProbeReply) -> bool {
    let Some(transport) = &reply.probe.transport else {
        return reply.probe.ip.is_none();
    };
    let of_destination = transport.destination_port == Some(flow.destination_id);
    transport.source_id == flow.source_id
        || reply.probe.mark.is_some_and(|mark| mark.tag == flow.tag)
        || (of_destination && !reply.kind.is_error())
}

/// Returns the numbers that the reply may refer to, before matching.
pub fn candidate_keys(reply: &ProbeReply) -> [Option<u16>; 3] {
    let probe = &reply.probe;
    [
        probe.mark.map(|mark| mark.key),
        probe.transport.as_ref().map(|transport| transport.number as u16),
        probe.ip.and_then(|ip| ip.identification),
    ]
}

/// Returns the names of the fields that the quoted packet shows to be rewritten.
pub fn find_rewritten_fields(flow: &ProbeFlow, key: u16, reply: &ProbeReply) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |changed: bool, what: &str| {
        if changed {
            found.push(what.to_owned());
        }
    };
    if let Some(ip) = &reply.probe.ip {
        note(ip.source != flow.source, "source_address");
        // Probes are sent with DSCP and ECN zero.
        note(ip.class >> 2 != 0, "dscp");
        note(ip.class & 3 != 0, "ecn");
        let identification = ip.identification.is_some_and(|number| number != key);
        note(identification, "identification");
    }
    if let Some(transport) = &reply.probe.transport {
        let is_icmp = transport.protocol == ProbeProtocol::Icmp;
        let source = if is_icmp { "identifier" } else { "source_port" };
        note(transport.source_id != flow.source_id, source);
        if let Some(options) = &transport.options {
            found.extend(find_changed_options(&flow.syn_options(), options));
        }
    }
    found
}

/// Returns the names of TCP options that were sent and arrived changed or not at all.
fn find_changed_options(sent: &[u8], seen: &[u8]) -> Vec<String> {
    let seen: Vec<(u8, &[u8])> = split_tcp_options(seen).collect();
    split_tcp_options(sent)
        .filter(|option| !seen.contains(option))
        .map(|(kind, _)| {
            let name = match kind {
                2 => "mss",
                3 => "window_scale",
                4 => "sack",
                _ => "timestamps",
            };
            format!("tcp_option_{name}")
        })
        .collect()
}

#[cfg(test)]
mod tests;

pub use longhaul_sys::probe_socket::QueuedIcmpInfo;
pub use quoted_packet::{IpHeader, ProbeMark, QuotedProbe, QuotedTransport};

use super::probe_packet::{fold_checksum, sum_words};
use crate::path::probe_packet::ProbeFlow;
use longhaul_capture::decode::split_tcp_options;
use longhaul_model::report::v1::path::{MplsLabel, ProbeProtocol};
use longhaul_model::serde_name::name_variant;
use longhaul_sys::probe_socket::{ErrorQueueEntry, ProbeArrival};
pub(crate) use quoted_packet::{read_array_at, read_u16_at, read_u32_at};
use serde::Serialize;
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
    let (quoted, extensions) = split_extensions(message, v4)?;
    Some(ProbeReply {
        from,
        ttl,
        kind,
        probe: QuotedProbe::from_packet(quoted, v4)?,
        mpls: extensions.map(parse_mpls_stack).unwrap_or_default(),
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
        mpls: extensions.map(parse_mpls_stack).unwrap_or_default(),
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
