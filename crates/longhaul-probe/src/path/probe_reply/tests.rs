//! Answers built from probes, read back; and bytes from anywhere.

use super::*;
use crate::path::probe_packet::ProbeFlow;
use longhaul_model::report::v1::path::ProbeProtocol;
use proptest::prelude::*;
use std::net::Ipv4Addr;

const PROTOCOLS: [ProbeProtocol; 3] = [ProbeProtocol::Icmp, ProbeProtocol::Udp, ProbeProtocol::Tcp];

fn address(v6: bool, last: u8) -> IpAddr {
    if v6 {
        IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)])
    } else {
        IpAddr::from([192, 0, 2, last])
    }
}

fn flow(protocol: ProbeProtocol, v6: bool) -> ProbeFlow {
    ProbeFlow {
        protocol,
        source: address(v6, 1),
        destination: address(v6, 9),
        source_id: 40_001,
        destination_id: 33_434,
        tag: 0x1234_5678,
    }
}

/// An ICMP message with its checksum (right for IPv4; the kernel sees to that of IPv6).
fn message(kind: u8, code: u8, rest: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest);
    message.extend(body);
    let checksum = !fold_checksum(sum_words(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    message
}

/// In an IPv4 packet from `192.0.2.5` with TTL 250.
fn in_packet(message: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 250, 1, 0, 0, 192, 0, 2, 5];
    packet.extend([192, 0, 2, 1]);
    packet.extend(message);
    packet
}

/// A time exceeded from hop 5 that quotes `quoted`.
fn exceeded(v6: bool, rest: [u8; 4], quoted: &[u8]) -> Option<ProbeReply> {
    if v6 {
        parse_icmp(&message(3, 0, rest, quoted), address(true, 5), Some(250))
    } else {
        parse_icmp_v4(&in_packet(&message(11, 0, rest, quoted)))
    }
}

/// Extensions with one object: a label stack.
fn stack(entries: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0x20, 0, 0, 0];
    bytes.extend((4 + 4 * entries.len() as u16).to_be_bytes());
    bytes.extend([1, 1]);
    bytes.extend(entries.iter().flat_map(|entry| entry.to_be_bytes()));
    let checksum = !fold_checksum(sum_words(&bytes));
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Label, traffic class, bottom of the stack, TTL.
fn entry(label: u32, class: u32, bottom: u32, ttl: u32) -> u32 {
    (label << 12) | (class << 9) | (bottom << 8) | ttl
}

proptest! {
    #[test]
    fn a_probe_that_is_quoted_is_known_by_its_number_and_by_no_other_flow(
        which in 0_usize..3, v6: bool, number: u32, ttl in 1_u8.., more in 0_usize..100,
        other_tag: u32,
    ) {
        let flow = flow(PROTOCOLS[which], v6);
        let key = crate::path::probe_packet::probe_key(number);
        let packet = flow.packet(ttl, key);
        // Eight bytes behind the IP header, or more, up to all of it.
        let kept = packet.len().min(if v6 { 48 } else { 28 } + more);
        let reply = exceeded(v6, [0; 4], &packet[..kept]).expect("an answer");
        prop_assert_eq!(reply.from, address(v6, 5));
        prop_assert_eq!((reply.ttl, reply.kind), (Some(250), ReplyKind::TimeExceeded));
        prop_assert_eq!(match_probe_key(&flow, &reply), Some(key));
        prop_assert!(find_rewritten_fields(&flow, key, &reply).is_empty());
        prop_assert_eq!(reply.probe.ip.expect("its header").ttl, ttl);
        // The same packet, taken for one of another destination or of other ports.
        let mut elsewhere = flow;
        elsewhere.destination = address(v6, 77);
        prop_assert_eq!(match_probe_key(&elsewhere, &reply), None);
        if kept == packet.len() && other_tag as u16 != flow.tag as u16 {
            let mut stranger = flow;
            stranger.tag = other_tag;
            prop_assert_eq!(match_probe_key(&stranger, &reply), None);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), v6: bool) {
        feed(&bytes, v6);
    }

    #[test]
    fn a_flipped_bit_is_never_another_probe_of_the_flow(
        which in 0_usize..3, at in 0_usize..84, bit in 0_u8..8,
    ) {
        // IPv4 errors carry a checksum over the quote, so any change of it is noticed.
        let flow = flow(PROTOCOLS[which], false);
        let mut packet = in_packet(&message(11, 0, [0; 4], &flow.packet(4, 700)));
        let at = 20 + at % (packet.len() - 20);
        packet[at] ^= 1 << bit;
        prop_assert!(parse_icmp_v4(&packet).is_none());
    }

    #[test]
    fn almost_right_bytes_never_panic(
        which in 0_usize..3, v6: bool, cut in 0_usize..300, at in 0_usize..200, byte: u8,
    ) {
        let mut quoted = flow(PROTOCOLS[which], v6).packet(4, 700);
        quoted.resize(128, 0);
        quoted.extend(stack(&[0x0001_2345, 7]));
        let mut bytes = if v6 {
            message(3, 0, [16, 0, 0, 0], &quoted)
        } else {
            in_packet(&message(11, 0, [0, 32, 0, 0], &quoted))
        };
        let last = bytes.len() - 1;
        bytes[at.min(last)] = byte;
        bytes.truncate(cut);
        feed(&bytes, v6);
    }
}

/// Through every decoder and every flow.
fn feed(bytes: &[u8], v6: bool) {
    let from = address(v6, 5);
    let error = QueuedIcmpInfo {
        kind: bytes.first().copied().unwrap_or(3),
        code: 0,
        info: 0,
        reported_by: Some(from),
        extensions_at: Some(bytes.len() / 2),
    };
    let replies = [
        parse_icmp_v4(bytes),
        parse_icmp(bytes, from, None),
        parse_tcp_v4(bytes),
        parse_tcp(bytes, from, None),
        parse_queued_error(&error, None, bytes, bytes.len().is_multiple_of(2)),
    ];
    for reply in replies.into_iter().flatten() {
        for protocol in PROTOCOLS {
            match_probe_key(&flow(protocol, v6), &reply);
            find_rewritten_fields(&flow(protocol, v6), 1, &reply);
        }
    }
}

#[test]
fn labels_are_read_where_the_length_says_and_at_the_old_place() {
    for v6 in [false, true] {
        let flow = flow(ProbeProtocol::Udp, v6);
        let mut quoted = flow.packet(1, 12);
        quoted.resize(128, 0);
        quoted.extend(stack(&[entry(24_015, 5, 0, 254), entry(16, 0, 1, 1)]));
        let told = if v6 { [16, 0, 0, 0] } else { [0, 32, 0, 0] };
        for rest in [told, [0; 4]] {
            let reply = exceeded(v6, rest, &quoted).expect("an answer");
            let labels: Vec<_> =
                reply.mpls.iter().map(|l| (l.label, l.traffic_class, l.ttl)).collect();
            assert_eq!(labels, [(24_015, 5, 254), (16, 0, 1)]);
            assert_eq!(match_probe_key(&flow, &reply), Some(12));
        }
    }
}

#[test]
fn garbled_extensions_are_no_labels() {
    let flow = flow(ProbeProtocol::Udp, false);
    let mut quoted = flow.packet(1, 12);
    quoted.resize(128, 0);
    let mut extensions = stack(&[entry(99, 0, 1, 0)]);
    extensions[9] ^= 1;
    quoted.extend(extensions);
    let reply = exceeded(false, [0, 32, 0, 0], &quoted).expect("an answer");
    assert!(reply.mpls.is_empty());
}

#[test]
fn the_words_of_unreachables_are_those_of_their_codes() {
    let quoted_v4 = flow(ProbeProtocol::Udp, false).packet(1, 12);
    let quoted_v6 = flow(ProbeProtocol::Udp, true).packet(1, 12);
    let words_v4 = [
        (0, "net_unreachable"),
        (1, "host_unreachable"),
        (2, "protocol_unreachable"),
        (3, "port_unreachable"),
        (4, "too_big"),
        (10, "prohibited"),
        (13, "prohibited"),
    ];
    for (code, word) in words_v4 {
        let packet = in_packet(&message(3, code, [0, 0, 5, 220], &quoted_v4));
        let reply = parse_icmp_v4(&packet).expect("an answer");
        assert_eq!(reply.kind.as_str(), word);
        if code == 4 {
            assert_eq!(reply.kind, ReplyKind::TooBig { mtu_bytes: 1500 });
        }
    }
    let words_v6 = [
        (0, "net_unreachable"),
        (1, "prohibited"),
        (3, "host_unreachable"),
        (4, "port_unreachable"),
    ];
    for (code, word) in words_v6 {
        let reply = parse_icmp(&message(1, code, [0; 4], &quoted_v6), address(true, 5), None);
        assert_eq!(reply.expect("an answer").kind.as_str(), word);
    }
}

#[test]
fn a_translator_that_forgets_the_quote_shows_in_what_it_rewrote() {
    let flow = flow(ProbeProtocol::Udp, false);
    let mut translated = flow;
    translated.source = Ipv4Addr::new(203, 0, 113, 7).into();
    translated.source_id = 61_000;
    // As the translator sends it: our number and tag, its own address, port and checksum.
    let mut packet = flow.packet(3, 900);
    packet[12..22].copy_from_slice(&translated.packet(3, 900)[12..22]);
    packet[1] = 46 << 2;
    packet[26] ^= 0x55;
    for kept in [28, packet.len()] {
        let reply = exceeded(false, [0; 4], &packet[..kept]).expect("an answer");
        assert_eq!(match_probe_key(&flow, &reply), Some(900));
        assert_eq!(
            find_rewritten_fields(&flow, 900, &reply),
            ["source_address", "dscp", "source_port"]
        );
    }
}

#[test]
fn other_ports_without_another_address_are_a_forgery() {
    for (protocol, v6) in PROTOCOLS.into_iter().flat_map(|p| [(p, false), (p, true)]) {
        let flow = flow(protocol, v6);
        let head = if v6 { 40 } else { 20 };
        // Source port or identifier; destination port; and the address of the destination.
        let near = if protocol == ProbeProtocol::Icmp { head + 4 } else { head };
        let far = if protocol == ProbeProtocol::Icmp { near } else { head + 2 };
        for at in [near, far, head - 1] {
            let mut packet = flow.packet(3, 900);
            packet[at] ^= 0x10;
            let reply = exceeded(v6, [0; 4], &packet).expect("an answer");
            assert_eq!(match_probe_key(&flow, &reply), None, "{protocol:?} {v6} {at}");
        }
    }
}

#[test]
fn options_that_a_middlebox_took_or_changed_are_named() {
    let flow = flow(ProbeProtocol::Tcp, false);
    let mut packet = flow.packet(3, 5);
    // MSS clamped; window scale overwritten by fillers.
    packet[43] -= 40;
    let length = packet.len();
    packet[length - 3..].fill(1);
    let reply = exceeded(false, [0; 4], &packet).expect("an answer");
    assert_eq!(
        find_rewritten_fields(&flow, 5, &reply),
        ["tcp_option_mss", "tcp_option_window_scale"]
    );
}

#[test]
fn the_far_end_answers_syns_echoes_and_nothing_else() {
    for v6 in [false, true] {
        let tcp_flow = flow(ProbeProtocol::Tcp, v6);
        let mut segment = tcp_flow.destination_id.to_be_bytes().to_vec();
        segment.extend(tcp_flow.source_id.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend((tcp_flow.sequence(31) + 1).to_be_bytes());
        segment.extend([0x50, 0x12, 0, 0, 0, 0, 0, 0]);
        let reply = parse_tcp(&segment, address(v6, 9), None).expect("an answer");
        assert_eq!((reply.kind, match_probe_key(&tcp_flow, &reply)), (ReplyKind::SynAck, Some(31)));
        // From elsewhere, or for another number's sequence: nobody's.
        let forged = parse_tcp(&segment, address(v6, 8), None).expect("a segment");
        assert_eq!(match_probe_key(&tcp_flow, &forged), None);
        segment[8] ^= 1;
        let forged = parse_tcp(&segment, address(v6, 9), None).expect("a segment");
        assert_eq!(match_probe_key(&tcp_flow, &forged), None);
        segment[13] = 0x10;
        assert_eq!(parse_tcp(&segment, address(v6, 9), None), None);

        let echo_flow = flow(ProbeProtocol::Icmp, v6);
        let mut echo = echo_flow.transport(77);
        echo[0] = if v6 { 129 } else { 0 };
        let reply = parse_icmp(&echo, address(v6, 9), Some(60)).expect("an answer");
        assert_eq!(match_probe_key(&echo_flow, &reply), Some(77));
        // The payload is not what was sent.
        echo[11] ^= 1;
        let forged = parse_icmp(&echo, address(v6, 9), Some(60)).expect("an echo");
        assert_eq!(match_probe_key(&echo_flow, &forged), None);
    }
}
