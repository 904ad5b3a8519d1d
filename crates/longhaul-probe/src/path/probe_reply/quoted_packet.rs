//! Parses IP and transport headers of packets that may be truncated anywhere.

use crate::path::probe_packet::MARK_BYTES;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum number of skipped extension headers in a quoted IPv6 packet.
const MAX_EXTENSION_HEADERS: usize = 4;

pub(super) fn read_array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) fn read_u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    read_array_at(bytes, at).map(u16::from_be_bytes)
}

pub(super) fn read_u32_at(bytes: &[u8], at: usize) -> Option<u32> {
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

/// The packet that an error quotes, possibly truncated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedPacket {
    /// Absent if the kernel delivered the error without it.
    pub ip: Option<IpHeader>,
    pub transport: QuotedTransport,
    /// Absent if the quote ends earlier.
    pub mark: Option<ProbeMark>,
}

/// Transport header of a quoted packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotedTransport {
    /// Removed by the kernel, or a protocol that probes do not use.
    Hidden,
    Icmp {
        checksum: u16,
        identifier: u16,
        sequence: u16,
    },
    Udp {
        source_port: u16,
        destination_port: u16,
        checksum: u16,
    },
    Tcp {
        source_port: u16,
        destination_port: u16,
        sequence: u32,
        /// Present if the quote contains all options.
        options: Option<Vec<u8>>,
    },
}

impl QuotedPacket {
    /// Parses a packet with its IP header and at least eight bytes of transport header.
    pub(super) fn from_packet(packet: &[u8], v4: bool) -> Option<QuotedPacket> {
        let head = if v4 { IpHeader::parse_v4(packet)? } else { IpHeader::parse_v6(packet)? };
        let rest = packet.get(head.bytes..)?;
        let (transport, payload) = match head.protocol {
            1 | 58 => (parse_quoted_echo(rest)?, rest.get(8..)),
            17 => (parse_quoted_udp(rest)?, rest.get(8..)),
            6 => (parse_quoted_tcp(rest)?, None),
            // A packet of another program.
            _ => (QuotedTransport::Hidden, None),
        };
        Some(QuotedPacket { ip: Some(head), transport, mark: payload.and_then(ProbeMark::parse) })
    }

    /// Parses the packet in a socket's error queue.
    pub(super) fn from_error_queue(bytes: &[u8], is_echo: bool) -> Option<QuotedPacket> {
        let (transport, payload) = if is_echo {
            (parse_quoted_echo(bytes)?, bytes.get(8..))
        } else {
            (QuotedTransport::Hidden, Some(bytes))
        };
        Some(QuotedPacket { ip: None, transport, mark: payload.and_then(ProbeMark::parse) })
    }
}

fn parse_quoted_echo(message: &[u8]) -> Option<QuotedTransport> {
    let [kind, _] = read_array_at(message, 0)?;
    // Only echo requests are probes.
    if !matches!(kind, 8 | 128) {
        return Some(QuotedTransport::Hidden);
    }
    Some(QuotedTransport::Icmp {
        checksum: read_u16_at(message, 2)?,
        identifier: read_u16_at(message, 4)?,
        sequence: read_u16_at(message, 6)?,
    })
}

fn parse_quoted_udp(datagram: &[u8]) -> Option<QuotedTransport> {
    Some(QuotedTransport::Udp {
        source_port: read_u16_at(datagram, 0)?,
        destination_port: read_u16_at(datagram, 2)?,
        checksum: read_u16_at(datagram, 6)?,
    })
}

fn parse_quoted_tcp(segment: &[u8]) -> Option<QuotedTransport> {
    let options = read_array_at(segment, 12).and_then(|[offset]: [u8; 1]| {
        let bytes = usize::from(offset >> 4) * 4;
        segment.get(20..bytes).map(<[u8]>::to_vec)
    });
    Some(QuotedTransport::Tcp {
        source_port: read_u16_at(segment, 0)?,
        destination_port: read_u16_at(segment, 2)?,
        sequence: read_u32_at(segment, 4)?,
        options,
    })
}
