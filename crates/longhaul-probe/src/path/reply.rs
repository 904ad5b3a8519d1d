//! Parses answers to probes without trusting them: pure functions of bytes.
//!
//! A decoder returns a [`Reply`] or nothing. [`matching::key`] then finds the probe that a reply
//! answers and accepts only what matches the flow: its addresses, ports and tag. Sources: RFC 792,
//! 4443, 4884 (extensions), 4950 (MPLS labels), 9293.

mod extension;
mod kind;
pub mod matching;
mod quote;
#[cfg(test)]
mod tests;

pub use kind::Kind;
pub use quote::{Mark, Quote, QuotedIp, Transport};

use super::packet::{folded, sum};
use longhaul_model::report::v1::path::MplsLabel;
use quote::{Head, array_at, u16_at, u32_at};
use std::net::IpAddr;

/// Maximum length of a parsed answer: quotes end at 1280 bytes at most (RFC 4443).
pub const MOST_REPLY_BYTES: usize = 2048;

/// An answer to a probe, as parsed; not yet matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub from: IpAddr,
    /// TTL or hop limit on arrival.
    pub ttl: Option<u8>,
    pub kind: Kind,
    pub about: About,
    /// Label stack of the router's packet, outermost first.
    pub mpls: Vec<MplsLabel>,
}

/// Reference of a reply to the probe that it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// An error quotes the probe.
    Quote(Quote),
    /// An echo reply repeats the probe.
    Echo {
        identifier: u16,
        sequence: u16,
        mark: Option<Mark>,
    },
    /// A TCP segment acknowledges the probe.
    Segment {
        /// Port of the answering host.
        source_port: u16,
        destination_port: u16,
        acknowledged: u32,
    },
}

/// An ICMP error from a socket's error queue.
#[derive(Debug, Clone, Copy)]
pub struct FromQueue<'a> {
    pub from: IpAddr,
    pub ttl: Option<u8>,
    /// ICMP type, followed by the code.
    pub kind: u8,
    pub code: u8,
    /// MTU of a "too big" error.
    pub info: u32,
    /// The quoted packet: for UDP its payload, for ICMP from the ICMP header on.
    pub quoted: &'a [u8],
    /// The quoted packet is an echo request of a ping socket.
    pub echo: bool,
    pub extensions_at: Option<usize>,
}

/// Parses an IPv4 packet with an ICMP message.
pub fn icmp_v4(packet: &[u8]) -> Option<Reply> {
    let head = Head::v4(packet)?;
    let message = packet.get(head.bytes..)?;
    if head.protocol != 1 || folded(sum(message)) != 0xffff {
        return None;
    }
    icmp(message, head.source, Some(head.ttl))
}

/// Parses an ICMPv6 message whose checksum the kernel has verified, or a ping socket's message.
pub fn icmp(message: &[u8], from: IpAddr, ttl: Option<u8>) -> Option<Reply> {
    let [kind, code] = array_at(message, 0)?;
    let v4 = from.is_ipv4();
    if kind == if v4 { 0 } else { 129 } {
        return echo_reply(message, from, ttl);
    }
    let kind = Kind::of_icmp(v4, kind, code, u32_at(message, 4)?)?;
    let (quoted, extensions) = extension::split(message, v4)?;
    Some(Reply {
        from,
        ttl,
        kind,
        about: About::Quote(Quote::of_packet(quoted, v4)?),
        mpls: extensions.map(extension::labels).unwrap_or_default(),
    })
}

fn echo_reply(message: &[u8], from: IpAddr, ttl: Option<u8>) -> Option<Reply> {
    Some(Reply {
        from,
        ttl,
        kind: Kind::EchoReply,
        about: About::Echo {
            identifier: u16_at(message, 4)?,
            sequence: u16_at(message, 6)?,
            mark: Mark::of(message.get(8..)?),
        },
        mpls: Vec::new(),
    })
}

/// Parses an error about a packet of one socket.
pub fn queued(error: &FromQueue<'_>) -> Option<Reply> {
    let extensions = error.extensions_at.and_then(|at| error.quoted.get(at..));
    let quoted = match extensions {
        Some(extensions) => &error.quoted[..error.quoted.len() - extensions.len()],
        None => error.quoted,
    };
    Some(Reply {
        from: error.from,
        ttl: error.ttl,
        kind: Kind::of_icmp(error.from.is_ipv4(), error.kind, error.code, error.info)?,
        about: About::Quote(Quote::of_socket(quoted, error.echo)?),
        mpls: extensions.map(extension::labels).unwrap_or_default(),
    })
}

/// Parses an IPv4 packet with a TCP segment.
pub fn tcp_v4(packet: &[u8]) -> Option<Reply> {
    let head = Head::v4(packet)?;
    if head.protocol != 6 {
        return None;
    }
    tcp(packet.get(head.bytes..)?, head.source, Some(head.ttl))
}

/// Parses a TCP segment; returns `None` if it does not answer a SYN.
pub fn tcp(segment: &[u8], from: IpAddr, ttl: Option<u8>) -> Option<Reply> {
    const SYN: u8 = 0x02;
    const RST: u8 = 0x04;
    const ACK: u8 = 0x10;
    let [flags] = array_at(segment, 13)?;
    let kind = match (flags & SYN != 0, flags & RST != 0, flags & ACK != 0) {
        (true, false, true) => Kind::SynAck,
        (false, true, true) => Kind::Reset,
        _ => return None,
    };
    Some(Reply {
        from,
        ttl,
        kind,
        about: About::Segment {
            source_port: u16_at(segment, 0)?,
            destination_port: u16_at(segment, 2)?,
            acknowledged: u32_at(segment, 8)?,
        },
        mpls: Vec::new(),
    })
}
