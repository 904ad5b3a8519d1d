//! Decodes TCP and UDP packets over IPv4 and IPv6 for the analysis.
//!
//! The input is not trusted: a packet that contradicts its headers yields `None`. Source: RFC 791,
//! 8200, 9293, 768, 7323, 2018; link types of the tcpdump group's registry.

use crate::CaptureRecord;
use etherparse::{IpNumber, LaxIpSlice, TcpHeaderSlice};
use longhaul_model::decoded_packet::{
    DecodedPacket, PacketTransport, PayloadHead, TcpFlags, TcpHeader, TcpHeaderOptions,
};
use std::hash::{DefaultHasher, Hasher};
use std::net::{IpAddr, SocketAddr};

/// The number of payload bytes that are compared between packets.
const COMPARED_BYTES: usize = 64;

/// The maximum number of VLAN tags, and of MPLS labels, of a frame.
const MAX_TAGS: usize = 8;

/// The layout of an IP packet.
#[derive(Debug, Clone, Copy)]
struct IpLayout {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: IpNumber,
    /// Length of the IP headers.
    pub header_bytes: usize,
    /// Length of the whole packet from its header; 0 if the header gives none (larger than 64 KiB).
    pub total_bytes: usize,
    pub ecn: u8,
    pub hop_limit: u8,
}

impl CaptureRecord<'_> {
    /// Decodes a TCP or UDP packet.
    pub fn decode(&self) -> Option<DecodedPacket> {
        decode_packet(self.at_ns, self.link_type, self.original_bytes, self.bytes)
    }
}

/// Decodes a TCP or UDP packet that was captured on a link of the given type.
pub fn decode_packet(
    at_ns: u64,
    link_type: u16,
    original_bytes: u32,
    bytes: &[u8],
) -> Option<DecodedPacket> {
    let ip = find_ip_packet(link_type, bytes)?;
    let layout = parse_ip_layout(ip)?;
    let link_bytes = (bytes.len() - ip.len()) as u32;
    let wire_bytes = match layout.total_bytes {
        0 => original_bytes.saturating_sub(link_bytes),
        total => total as u32,
    };
    let rest = ip.get(layout.header_bytes..)?;
    let (source, destination) = (u16_at(rest, 0)?, u16_at(rest, 2)?);
    let (transport, header_bytes) = match layout.protocol {
        IpNumber::UDP => (PacketTransport::Udp, 8),
        IpNumber::TCP => {
            let (segment, header_bytes) = parse_tcp_header(rest)?;
            (PacketTransport::Tcp(segment), header_bytes)
        }
        _ => return None,
    };
    let headers = layout.header_bytes + header_bytes;
    let payload_bytes = wire_bytes.saturating_sub(headers as u32);
    // Bytes after the end of the packet on the link (padding) are not payload.
    let until = ip.len().min(wire_bytes as usize);
    let payload = ip.get(headers..until).unwrap_or(&[]);
    Some(DecodedPacket {
        at_ns,
        from: SocketAddr::new(layout.source, source),
        to: SocketAddr::new(layout.destination, destination),
        wire_bytes,
        payload_bytes,
        payload: digest_payload_head(payload),
        ecn: layout.ecn,
        hop_limit: layout.hop_limit,
        transport,
    })
}

/// Returns the length of the IP and TCP or UDP headers of a packet that begins at its IP header.
/// For any other packet, returns its whole length.
pub fn count_header_bytes(ip: &[u8]) -> usize {
    let known = || {
        let layout = parse_ip_layout(ip)?;
        let rest = ip.get(layout.header_bytes..)?;
        let own = match layout.protocol {
            IpNumber::TCP => usize::from(rest.get(12)? >> 4) * 4,
            IpNumber::UDP => 8,
            _ => return None,
        };
        Some(layout.header_bytes + own)
    };
    known().unwrap_or(ip.len()).min(ip.len())
}

/// Returns the IP packet within a frame; `None` for other protocols and unknown link types.
fn find_ip_packet(link_type: u16, bytes: &[u8]) -> Option<&[u8]> {
    match link_type {
        // The several link types of raw IP.
        12 | 14 | 101 | 228 | 229 => Some(bytes),
        0 | 108 => bytes.get(4..),
        1 => find_tagged_payload(bytes, 12),
        9 | 50 => find_ppp_payload(bytes),
        104 => find_tagged_payload(bytes, 2),
        113 => find_tagged_payload(bytes, 14),
        276 => is_ip(u16_at(bytes, 0)?).then(|| bytes.get(20..))?,
        _ => None,
    }
}

/// Finds the IP packet behind an EtherType, VLAN tags, MPLS labels and PPPoE.
fn find_tagged_payload(bytes: &[u8], mut type_at: usize) -> Option<&[u8]> {
    for _ in 0..=MAX_TAGS {
        let payload = bytes.get(type_at + 2..)?;
        match u16_at(bytes, type_at)? {
            0x8100 | 0x88a8 => type_at += 4,
            0x8847 | 0x8848 => {
                let is_last = |label: &[u8; 4]| label[2] & 1 == 1;
                let labels = payload.as_chunks::<4>().0.iter().take(MAX_TAGS).position(is_last)?;
                return payload.get(4 * (labels + 1)..);
            }
            0x8864 => return find_ppp_payload(payload.get(6..)?),
            kind => return is_ip(kind).then_some(payload),
        }
    }
    None
}

/// Finds the IP packet in a frame of PPP, with or without HDLC framing.
fn find_ppp_payload(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = bytes.strip_prefix(&[0xff, 0x03]).unwrap_or(bytes);
    matches!(u16_at(bytes, 0)?, 0x0021 | 0x0057).then(|| bytes.get(2..))?
}

fn is_ip(kind: u16) -> bool {
    matches!(kind, 0x0800 | 0x86dd)
}

/// Returns `None` for a packet that is not IP, a fragment other than the first, or a short packet.
fn parse_ip_layout(ip: &[u8]) -> Option<IpLayout> {
    let (packet, _) = LaxIpSlice::from_slice(ip).ok()?;
    let (is_later_fragment, header_bytes, total_bytes, ecn, hop_limit) = match &packet {
        LaxIpSlice::Ipv4(packet) => {
            let header = packet.header();
            let total = usize::from(header.total_len());
            let later = header.fragments_offset().value() != 0;
            (later, header.slice().len(), total, header.ecn(), header.ttl())
        }
        LaxIpSlice::Ipv6(packet) => {
            let (header, extensions) = (packet.header(), packet.extensions());
            let payload = usize::from(header.payload_length());
            let total = if payload == 0 { 0 } else { payload + 40 };
            let later = has_later_fragment(header.next_header(), extensions.slice());
            (later, 40 + extensions.slice().len(), total, header.ecn(), header.hop_limit())
        }
    };
    (!is_later_fragment).then(|| IpLayout {
        source: packet.source_addr(),
        destination: packet.destination_addr(),
        protocol: packet.payload_ip_number(),
        header_bytes,
        total_bytes,
        ecn: ecn.value(),
        hop_limit,
    })
}

/// Returns whether one of these IPv6 extension headers, of which the first is of this kind, belongs to
/// a fragment other than the first. (The library's iterator reads beyond the end where headers were
/// cut off.)
fn has_later_fragment(mut kind: IpNumber, mut headers: &[u8]) -> bool {
    while let &[next, length, high, low, ..] = headers {
        let header_bytes = match kind {
            IpNumber::IPV6_FRAGMENTATION_HEADER => {
                if u16::from_be_bytes([high, low]) >> 3 != 0 {
                    return true;
                }
                8
            }
            IpNumber::AUTHENTICATION_HEADER => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        kind = IpNumber(next);
        headers = headers.get(header_bytes..).unwrap_or_default();
    }
    false
}

/// Returns the TCP header and its length. Options that were not captured are missing.
fn parse_tcp_header(rest: &[u8]) -> Option<(TcpHeader, usize)> {
    rest.first_chunk::<20>()?;
    // The library wants all options; those that were not captured become padding.
    let mut whole = [0; 60];
    let held = rest.len().min(whole.len());
    whole[..held].copy_from_slice(&rest[..held]);
    let fixed = TcpHeaderSlice::from_slice(&whole).ok()?;
    let header_bytes = fixed.slice().len();
    let segment = TcpHeader {
        sequence: fixed.sequence_number(),
        acknowledged: fixed.acknowledgment_number(),
        flags: TcpFlags(u16_at(rest, 12)? & 0x1ff),
        window: fixed.window_size(),
        options: parse_tcp_options(&rest[20..header_bytes.min(rest.len())]),
    };
    Some((segment, header_bytes))
}

fn parse_tcp_options(bytes: &[u8]) -> TcpHeaderOptions {
    let mut found = TcpHeaderOptions::default();
    for option in split_tcp_options(bytes) {
        match option {
            (2, [high, low]) => found.mss_bytes = Some(u16::from_be_bytes([*high, *low])),
            // RFC 7323: values above 14 are treated as 14.
            (3, [shift]) => found.window_shift = Some((*shift).min(14)),
            (4, []) => found.sack_permitted = true,
            (5, blocks) => {
                found.sack_blocks = (blocks.len() / 8) as u8;
                found.first_sack = parse_number_pair(blocks.get(..8).unwrap_or_default());
            }
            (8, value) => found.timestamps = parse_number_pair(value),
            _ => {}
        }
    }
    found
}

/// Iterates over the kinds and values of TCP options, up to the first invalid one. (The library's
/// iterator would end at the first option that it does not know.)
pub fn split_tcp_options(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        // Padding.
        while let [1, rest @ ..] = bytes {
            bytes = rest;
        }
        let &[kind @ 2..=255, length, ..] = bytes else {
            return None;
        };
        let value = bytes.get(2..usize::from(length))?;
        bytes = &bytes[usize::from(length)..];
        Some((kind, value))
    })
}

/// Parses two numbers of four bytes.
fn parse_number_pair(value: &[u8]) -> Option<(u32, u32)> {
    let (own, rest) = value.split_first_chunk::<4>()?;
    let echoed = <[u8; 4]>::try_from(rest).ok()?;
    Some((u32::from_be_bytes(*own), u32::from_be_bytes(echoed)))
}

fn digest_payload_head(payload: &[u8]) -> Option<PayloadHead> {
    let head = payload.get(..payload.len().min(COMPARED_BYTES))?;
    if head.is_empty() {
        return None;
    }
    // The hasher has fixed keys: equal bytes have equal digests in every run.
    let mut hasher = DefaultHasher::new();
    hasher.write(head);
    Some(PayloadHead {
        bytes: head.len() as u32,
        digest: hasher.finish(),
        is_ssh: head.starts_with(b"SSH-"),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*field))
}
