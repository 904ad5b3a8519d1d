//! Parses IP and transport headers of packets that may be truncated anywhere.

use crate::path::packet::MARK_BYTES;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum number of skipped extension headers in a quoted IPv6 packet.
const MOST_EXTENSION_HEADERS: usize = 4;

pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_be_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_be_bytes)
}

/// An IP header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub ttl: u8,
    pub class: u8,
    /// IPv4 only.
    pub identification: Option<u16>,
    /// Offset of the transport header.
    pub bytes: usize,
}

impl Head {
    /// Parses an IPv4 header. Rejects later fragments, which have no transport header.
    pub fn v4(packet: &[u8]) -> Option<Head> {
        let [first, class] = array_at(packet, 0)?;
        let bytes = usize::from(first & 15) * 4;
        let fragment_offset = u16_at(packet, 6)? & 0x1fff;
        if first >> 4 != 4 || bytes < 20 || packet.len() < bytes || fragment_offset != 0 {
            return None;
        }
        let [ttl, protocol] = array_at(packet, 8)?;
        Some(Head {
            source: Ipv4Addr::from(u32_at(packet, 12)?).into(),
            destination: Ipv4Addr::from(u32_at(packet, 16)?).into(),
            protocol,
            ttl,
            class,
            identification: u16_at(packet, 4),
            bytes,
        })
    }

    fn v6(packet: &[u8]) -> Option<Head> {
        let first = u32_at(packet, 0)?;
        if first >> 28 != 6 {
            return None;
        }
        let [mut protocol, ttl] = array_at(packet, 6)?;
        let mut bytes = 40;
        for _ in 0..MOST_EXTENSION_HEADERS {
            // Hop-by-hop, routing, destination options.
            if !matches!(protocol, 0 | 43 | 60) {
                break;
            }
            let [next, words] = array_at(packet, bytes)?;
            protocol = next;
            bytes += (usize::from(words) + 1) * 8;
        }
        Some(Head {
            source: Ipv6Addr::from(array_at::<16>(packet, 8)?).into(),
            destination: Ipv6Addr::from(array_at::<16>(packet, 24)?).into(),
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
pub struct Mark {
    pub tag: u32,
    pub key: u16,
}

impl Mark {
    pub(super) fn of(payload: &[u8]) -> Option<Mark> {
        let mark = payload.get(..MARK_BYTES)?;
        Some(Mark {
            tag: u32_at(mark, 2)?,
            key: u16_at(mark, 6)?,
        })
    }
}

/// The packet that an error quotes, possibly truncated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// Absent if the kernel delivered the error without it.
    pub ip: Option<QuotedIp>,
    pub transport: Transport,
    /// Absent if the quote ends earlier.
    pub mark: Option<Mark>,
}

/// IP header of a quoted packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotedIp {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub ttl: u8,
    /// Type of service or traffic class.
    pub class: u8,
    pub identification: Option<u16>,
}

/// Transport header of a quoted packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
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

impl Quote {
    /// Parses a packet with its IP header and at least eight bytes of transport header.
    pub(super) fn of_packet(packet: &[u8], v4: bool) -> Option<Quote> {
        let head = if v4 {
            Head::v4(packet)?
        } else {
            Head::v6(packet)?
        };
        let rest = packet.get(head.bytes..)?;
        let (transport, payload) = match head.protocol {
            1 | 58 => (echo(rest)?, rest.get(8..)),
            17 => (udp(rest)?, rest.get(8..)),
            6 => (tcp(rest)?, None),
            // A packet of another program.
            _ => (Transport::Hidden, None),
        };
        Some(Quote {
            ip: Some(QuotedIp {
                source: head.source,
                destination: head.destination,
                protocol: head.protocol,
                ttl: head.ttl,
                class: head.class,
                identification: head.identification,
            }),
            transport,
            mark: payload.and_then(Mark::of),
        })
    }

    /// Parses the packet in a socket's error queue.
    pub(super) fn of_socket(bytes: &[u8], is_echo: bool) -> Option<Quote> {
        let (transport, payload) = if is_echo {
            (echo(bytes)?, bytes.get(8..))
        } else {
            (Transport::Hidden, Some(bytes))
        };
        Some(Quote {
            ip: None,
            transport,
            mark: payload.and_then(Mark::of),
        })
    }
}

fn echo(message: &[u8]) -> Option<Transport> {
    let [kind, _] = array_at(message, 0)?;
    // Only echo requests are probes.
    if !matches!(kind, 8 | 128) {
        return Some(Transport::Hidden);
    }
    Some(Transport::Icmp {
        checksum: u16_at(message, 2)?,
        identifier: u16_at(message, 4)?,
        sequence: u16_at(message, 6)?,
    })
}

fn udp(datagram: &[u8]) -> Option<Transport> {
    Some(Transport::Udp {
        source_port: u16_at(datagram, 0)?,
        destination_port: u16_at(datagram, 2)?,
        checksum: u16_at(datagram, 6)?,
    })
}

fn tcp(segment: &[u8]) -> Option<Transport> {
    let options = array_at(segment, 12).and_then(|[offset]: [u8; 1]| {
        let bytes = usize::from(offset >> 4) * 4;
        segment.get(20..bytes).map(<[u8]>::to_vec)
    });
    Some(Transport::Tcp {
        source_port: u16_at(segment, 0)?,
        destination_port: u16_at(segment, 2)?,
        sequence: u32_at(segment, 4)?,
        options,
    })
}
