//! Parses IP and transport headers of packets that may be truncated anywhere.

use crate::path::probe_packet::MARK_BYTES;
use longhaul_model::report::v1::path::ProbeProtocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum number of skipped extension headers in a quoted IPv6 packet.
const MAX_EXTENSION_HEADERS: usize = 4;

pub(crate) fn read_array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn read_u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    read_array_at(bytes, at).map(u16::from_be_bytes)
}

pub(crate) fn read_u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    read_array_at(bytes, at).map(u32::from_be_bytes)
}

/// The IP header of a received or a quoted packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpHeader {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub ttl: u8,
    /// Type of service or traffic class.
    pub class: u8,
    /// IPv4 only.
    pub identification: Option<u16>,
    /// Offset of the transport header.
    pub bytes: usize,
}

impl IpHeader {
    /// Parses an IPv4 header. Rejects later fragments, which have no transport header.
    pub(super) fn parse_v4(packet: &[u8]) -> Option<IpHeader> {
        let [first, class] = read_array_at(packet, 0)?;
        let bytes = usize::from(first & 15) * 4;
        let fragment_offset = read_u16_at(packet, 6)? & 0x1fff;
        if first >> 4 != 4 || bytes < 20 || packet.len() < bytes || fragment_offset != 0 {
            return None;
        }
        let [ttl, protocol] = read_array_at(packet, 8)?;
        Some(IpHeader {
            source: Ipv4Addr::from(read_u32_at(packet, 12)?).into(),
            destination: Ipv4Addr::from(read_u32_at(packet, 16)?).into(),
            protocol,
            ttl,
            class,
            identification: read_u16_at(packet, 4),
            bytes,
        })
    }

    fn parse_v6(packet: &[u8]) -> Option<IpHeader> {
        let first = read_u32_at(packet, 0)?;
        if first >> 28 != 6 {
            return None;
        }
        let [mut protocol, ttl] = read_array_at(packet, 6)?;
        let mut bytes = 40;
        for _ in 0..MAX_EXTENSION_HEADERS {
            // Hop-by-hop, routing, destination options.
            if !matches!(protocol, 0 | 43 | 60) {
                break;
            }
            let [next, words] = read_array_at(packet, bytes)?;
            protocol = next;
            bytes += (usize::from(words) + 1) * 8;
        }
        Some(IpHeader {
            source: Ipv6Addr::from(read_array_at::<16>(packet, 8)?).into(),
            destination: Ipv6Addr::from(read_array_at::<16>(packet, 24)?).into(),
            protocol,
            ttl,
            class: (first >> 20) as u8,
            identification: None,
            bytes,
        })
    }
}

/// Tag and number in the payload of our probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeMark {
    pub tag: u32,
    pub key: u16,
}

impl ProbeMark {
    pub(super) fn parse(payload: &[u8]) -> Option<ProbeMark> {
        let mark = payload.get(..MARK_BYTES)?;
        Some(ProbeMark { tag: read_u32_at(mark, 2)?, key: read_u16_at(mark, 6)? })
    }
}

/// A probe as an answer shows it: quoted by an error, perhaps truncated, or repeated or acknowledged
/// by the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedProbe {
    /// Absent if the answer does not contain it, or the kernel delivered an error without it.
    pub ip: Option<IpHeader>,
    /// Absent if the kernel removed it, or if it is of no probe.
    pub transport: Option<QuotedTransport>,
    /// Absent if the quote ends earlier.
    pub mark: Option<ProbeMark>,
}

/// The fields of a probe's transport header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedTransport {
    pub protocol: ProbeProtocol,
    /// Source port, or the identifier of ICMP echoes.
    pub source_id: u16,
    /// Absent for ICMP.
    pub destination_port: Option<u16>,
    /// Sequence number of ICMP or TCP, or checksum of UDP.
    pub number: u32,
    /// Options of TCP; present if the quote contains all of them.
    pub options: Option<Vec<u8>>,
}

impl QuotedProbe {
    /// Parses a packet with its IP header and at least eight bytes of transport header.
    pub(super) fn from_packet(packet: &[u8], v4: bool) -> Option<QuotedProbe> {
        let head = if v4 { IpHeader::parse_v4(packet)? } else { IpHeader::parse_v6(packet)? };
        let rest = packet.get(head.bytes..).filter(|rest| rest.len() >= 8)?;
        let payload = matches!(head.protocol, 1 | 17 | 58).then(|| &rest[8..]);
        Some(QuotedProbe {
            ip: Some(head),
            transport: parse_transport(head.protocol, rest),
            mark: payload.and_then(ProbeMark::parse),
        })
    }

    /// Parses the packet in a socket's error queue.
    pub(super) fn from_error_queue(bytes: &[u8], is_echo: bool) -> Option<QuotedProbe> {
        let payload = if is_echo { bytes.get(8..)? } else { bytes };
        let transport = if is_echo { parse_transport(1, bytes) } else { None };
        Some(QuotedProbe { ip: None, transport, mark: ProbeMark::parse(payload) })
    }
}

/// Parses the header of a probe; `None` for packets of other programs.
fn parse_transport(protocol: u8, bytes: &[u8]) -> Option<QuotedTransport> {
    let word = |at| read_u16_at(bytes, at);
    let (protocol, source_id, destination_port, number) = match protocol {
        // Only echo requests are probes.
        1 | 58 if !matches!(bytes.first(), Some(8 | 128)) => return None,
        1 | 58 => (ProbeProtocol::Icmp, word(4)?, None, word(6)?.into()),
        17 => (ProbeProtocol::Udp, word(0)?, word(2), word(6)?.into()),
        6 => (ProbeProtocol::Tcp, word(0)?, word(2), read_u32_at(bytes, 4)?),
        _ => return None,
    };
    let options = match protocol {
        ProbeProtocol::Tcp => bytes.get(12).and_then(|offset| {
            let end = usize::from(offset >> 4) * 4;
            bytes.get(20..end).map(<[u8]>::to_vec)
        }),
        ProbeProtocol::Icmp | ProbeProtocol::Udp => None,
    };
    Some(QuotedTransport { protocol, source_id, destination_port, number, options })
}
