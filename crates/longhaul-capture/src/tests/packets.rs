//! Packets made by hand, and what is decoded of them.

use crate::{LINK_RAW, decode};
use longhaul_model::decoded_packet::{PacketTransport, TcpFlags};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

/// TCP with these options and payload, or UDP; without checksums.
pub fn packet(from: SocketAddr, to: SocketAddr, udp: bool, options: &[u8], body: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    rest.extend(from.port().to_be_bytes());
    rest.extend(to.port().to_be_bytes());
    if udp {
        rest.extend((8 + body.len() as u16).to_be_bytes());
        rest.extend([0; 2]);
    } else {
        rest.extend(1000_u32.to_be_bytes());
        rest.extend(2000_u32.to_be_bytes());
        let words = 5 + options.len().div_ceil(4);
        rest.extend([(words as u8) << 4, 0x12, 0x10, 0, 0xab, 0xcd, 0, 0]);
        rest.extend(options);
        rest.resize(words * 4, 0);
    }
    rest.extend(body);
    let protocol = if udp { 17 } else { 6 };
    let mut packet = Vec::new();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.extend([0x45, 0]);
            packet.extend((20 + rest.len() as u16).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend((rest.len() as u16).to_be_bytes());
            packet.extend([protocol, 64]);
            packet.extend(from.octets());
            packet.extend(to.octets());
        }
        _ => panic!("one family"),
    }
    packet.extend(rest);
    packet
}

pub fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// MSS 1460, SACK permitted, timestamps 1 and 0, a gap, window shift 7.
pub const SYN_OPTIONS: [u8; 20] = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];

#[test]
fn the_options_of_a_handshake_are_read_over_every_link() {
    for (from, to) in [("192.0.2.1:9", "192.0.2.2:5201"), ("[2001:db8::1]:9", "[2001:db8::2]:5201")]
    {
        let ip = packet(address(from), address(to), false, &SYN_OPTIONS, b"");
        let kind: [u8; 2] = if from.starts_with('[') { [0x86, 0xdd] } else { [8, 0] };
        let ppp = [0, if kind == [8, 0] { 0x21 } else { 0x57 }];
        let framed = |head: &[u8], tail: &[u8]| [head, &kind, tail, &ip].concat();
        let over = [
            (LINK_RAW, ip.clone()),
            (1, framed(&[0; 12], &[])),
            (1, framed(&[&[0; 12][..], &[0x81, 0, 0, 5]].concat(), &[])),
            (1, framed(&[&[0; 12][..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]].concat(), &[])),
            (1, [&[0; 12][..], &[0x88, 0x47, 0, 1, 0x20, 64, 0, 1, 0x21, 64], &ip].concat()),
            (1, [&[0; 12][..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 40], &ppp, &ip].concat()),
            (9, [&ppp[..], &ip].concat()),
            (50, [&[0xff, 3][..], &ppp, &ip].concat()),
            (104, framed(&[0x0f, 0], &[])),
            (113, framed(&[0; 14], &[])),
            (276, framed(&[], &[0; 18])),
            (0, [&[2, 0, 0, 0], &ip[..]].concat()),
        ];
        for (link, frame) in over {
            let found = decode::decode_packet(5, link, frame.len() as u32, &frame);
            let found = found.unwrap_or_else(|| panic!("link {link}"));
            assert_eq!((found.from, found.to), (address(from), address(to)));
            assert_eq!((found.wire_bytes as usize, found.payload_bytes), (ip.len(), 0));
            let PacketTransport::Tcp(segment) = found.transport else {
                panic!("TCP");
            };
            assert!(segment.flags.has(TcpFlags::SYN | TcpFlags::ACK));
            let options = segment.options;
            assert_eq!(options.mss_bytes, Some(1460));
            assert_eq!(options.window_shift, Some(7));
            assert_eq!(options.timestamps, Some((1, 0)));
            assert!(options.sack_permitted);
        }
    }
}

#[test]
fn sizes_come_from_the_header_when_the_payload_was_cut() {
    let whole = packet(address("192.0.2.1:9"), address("192.0.2.2:5201"), false, &[], &[7; 1400]);
    let headers = decode::count_header_bytes(&whole);
    assert_eq!(headers, 40);
    let found = decode::decode_packet(0, LINK_RAW, 1440, &whole[..headers]).expect("decoded");
    assert_eq!((found.payload_bytes, found.payload), (1400, None));
    let padded = [&whole[..], &[0; 20]].concat();
    let found = decode::decode_packet(0, LINK_RAW, 1460, &padded).expect("decoded");
    assert_eq!(found.payload_bytes, 1400, "padding of the link is no payload");
}

#[test]
fn fragments_and_foreign_protocols_are_nobodys() {
    let mut ip = packet(address("192.0.2.1:9"), address("192.0.2.2:5201"), false, &[], &[]);
    ip[7] = 1;
    assert_eq!(decode::decode_packet(0, LINK_RAW, 40, &ip), None);
    ip[7] = 0;
    ip[9] = 1;
    assert_eq!(decode::decode_packet(0, LINK_RAW, 40, &ip), None);
}

/// A packet of IPv6 with extension headers, of which the first is of this kind, before UDP.
fn packet_with_extensions(first: u8, headers: &[u8]) -> Vec<u8> {
    let ends = [address("[2001:db8::1]:9"), address("[2001:db8::2]:5201")];
    let mut ip = packet(ends[0], ends[1], true, &[], b"x");
    ip[6] = first;
    ip.splice(40..40, headers.iter().copied());
    let payload = (ip.len() - 40) as u16;
    ip[4..6].copy_from_slice(&payload.to_be_bytes());
    ip
}

#[test]
fn later_fragments_of_ipv6_are_nobodys_behind_other_headers() {
    let options = [44, 0, 0, 0, 0, 0, 0, 0];
    for (offset_and_more, is_decoded) in [(0x0001_u16, true), (0x0008, false)] {
        let [high, low] = offset_and_more.to_be_bytes();
        let fragment = [17, 0, high, low, 0, 0, 0, 7];
        let ip = packet_with_extensions(60, &[options, fragment].concat());
        let decoded = decode::decode_packet(0, LINK_RAW, ip.len() as u32, &ip);
        assert_eq!(decoded.is_some(), is_decoded, "{offset_and_more:#x}");
    }
}

#[test]
fn extension_headers_that_were_cut_off_are_not_read() {
    // Hop-by-hop options announce destination options, which are missing or not complete.
    let ip = packet_with_extensions(0, &[60, 0, 0, 0, 0, 0, 0, 0]);
    for length in 40..50 {
        assert_eq!(decode::decode_packet(0, LINK_RAW, ip.len() as u32, &ip[..length]), None);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_not_but_never_harm(
        link in prop::sample::select(vec![0_u16, 1, 12, 101, 108, 113, 276, 999]),
        first in any::<u8>(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        original in any::<u32>(),
    ) {
        let bytes = [&[first], &bytes[..]].concat();
        decode::decode_packet(0, link, original, &bytes);
        prop_assert!(decode::count_header_bytes(&bytes) <= bytes.len());
        println!("attack: tried 1");
    }
}
