//! Connections played packet by packet, with what is known of them.

use super::{CaptureAnalyser, CaptureFlows, MAX_CAPTURE_FLOWS, MAX_ENDED_FLOWS};
use longhaul_model::decoded_packet::{
    DecodedPacket, PacketTransport, PayloadHead, TcpFlags, TcpHeader, TcpHeaderOptions,
};
use longhaul_model::report::v1::capture::{
    CapturePoint, CapturedFlow, NegotiatedOptions, TcpFlowDirection,
};
use proptest::prelude::*;
use std::net::SocketAddr;

const MS: u64 = 1_000_000;
const MSS: u32 = 1000;

/// A connection as seen at its opener, whose numbers wrap around.
struct Play {
    packets: Vec<DecodedPacket>,
    stamps: bool,
}

const OPENER_FIRST: u32 = u32::MAX - 1500;
const LISTENER_FIRST: u32 = 77;

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}

impl Play {
    /// With a handshake of 100 ms.
    fn new(stamps: bool) -> Play {
        let mut play = Play { packets: Vec::new(), stamps };
        let options = |shift| TcpHeaderOptions {
            mss_bytes: Some(1460),
            window_shift: Some(shift),
            sack_permitted: true,
            ..TcpHeaderOptions::default()
        };
        play.put(0, true, TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR, (0, 0, 0), options(7));
        play.put(100, false, TcpFlags::SYN | TcpFlags::ACK, (0, 1, 0), options(9));
        play.put(100, true, TcpFlags::ACK, (1, 1, 0), TcpHeaderOptions::default());
        play
    }

    fn put(
        &mut self,
        at_ms: u64,
        from_opener: bool,
        flags: u16,
        (sequence, acknowledged, payload_bytes): (u32, u32, u32),
        options: TcpHeaderOptions,
    ) {
        let (opener, listener) = (address(1, 40_000), address(2, 5201));
        let (from, to, own, other) = if from_opener {
            (opener, listener, OPENER_FIRST, LISTENER_FIRST)
        } else {
            (listener, opener, LISTENER_FIRST, OPENER_FIRST)
        };
        let stamps = (at_ms as u32, at_ms.saturating_sub(100) as u32);
        self.packets.push(DecodedPacket {
            at_ns: 1_000_000_000_000 + at_ms * MS,
            from,
            to,
            wire_bytes: 40 + payload_bytes,
            payload_bytes,
            payload: None,
            ecn: 0,
            hop_limit: 64,
            transport: PacketTransport::Tcp(TcpHeader {
                sequence: own.wrapping_add(sequence),
                acknowledged: other.wrapping_add(acknowledged),
                flags: TcpFlags(flags),
                window: 500,
                options: TcpHeaderOptions { timestamps: self.stamps.then_some(stamps), ..options },
            }),
        });
    }

    /// The opener sends packet `number` of its data.
    fn sends(&mut self, at_ms: u64, number: u32) {
        let options = TcpHeaderOptions::default();
        self.put(at_ms, true, TcpFlags::ACK, (1 + number * MSS, 1, MSS), options);
    }

    /// The listener acknowledges all below packet `number`.
    fn acknowledges(&mut self, at_ms: u64, number: u32) {
        let options = TcpHeaderOptions::default();
        self.put(at_ms, false, TcpFlags::ACK, (1, 1 + number * MSS, 0), options);
    }

    fn found(&self) -> CapturedFlow {
        let CaptureFlows { mut flows, .. } = found(&self.packets);
        assert_eq!(flows.len(), 1);
        flows.remove(0)
    }
}

fn found(packets: &[DecodedPacket]) -> CaptureFlows {
    let mut analyser = CaptureAnalyser::default();
    for packet in packets {
        analyser.add_packet(packet);
    }
    analyser.finish()
}

fn tcp(flow: &CapturedFlow) -> TcpFlowDirection {
    flow.forward.tcp.expect("TCP")
}

#[test]
fn a_handshake_says_what_holds_and_how_long_it_took() {
    let flow = Play::new(false).found();
    assert_eq!((&*flow.opener, &*flow.listener), ("192.0.2.1:40000", "192.0.2.2:5201"));
    let handshake = flow.handshake.expect("a handshake");
    assert_eq!(handshake.opener.window_shift, Some(7));
    assert_eq!(handshake.opener.mss_bytes, Some(1460));
    let agreed =
        NegotiatedOptions { window_scaling: true, sack: true, timestamps: false, ecn: false };
    assert_eq!(handshake.agreed, Some(agreed), "the listener did not answer to ECN");
    assert_eq!(handshake.answered_us, Some(100_000));
    assert_eq!(handshake.acknowledged_us, Some(0));
    assert_eq!(tcp(&flow).largest_window_bytes, Some(500 << 7));
    let reverse = flow.reverse.tcp.expect("TCP");
    assert_eq!(reverse.largest_window_bytes, Some(500), "that of its first packet has no shift");
}

#[test]
fn a_clean_transfer_has_its_round_trips_and_its_bytes_in_flight() {
    for stamps in [false, true] {
        let mut play = Play::new(stamps);
        for number in 0..4 {
            play.sends(200 + u64::from(number), number);
        }
        for number in 0..4 {
            play.acknowledges(320 + u64::from(number), number + 1);
        }
        let flow = play.found();
        let way = tcp(&flow);
        assert_eq!((way.unique_bytes, way.most_in_flight_bytes), (4000, 4000));
        assert_eq!(way.retransmitted_packets + way.reordered_packets + way.unseen_bytes, 0);
        let rtt = way.rtt.expect("round trips");
        assert_eq!((rtt.least_us, rtt.median_us, rtt.samples), (100_000, 120_000, 5));
        assert_eq!(flow.forward.payload_bytes, 4000);
    }
}

#[test]
fn a_lost_packet_is_sent_again_and_an_overtaken_one_is_not() {
    for stamps in [false, true] {
        // At the receiver, where a lost packet leaves a hole: filled a round trip later, or at once.
        for (filled_at, again) in [(330, true), (202, false)] {
            let mut play = Play::new(stamps);
            play.sends(200, 0);
            play.sends(201, 2);
            let stamp = if again { filled_at } else { 200 };
            play.sends(filled_at, 1);
            if stamps
                && let Some(PacketTransport::Tcp(segment)) =
                    play.packets.last_mut().map(|packet| &mut packet.transport)
            {
                segment.options.timestamps = Some((stamp as u32, 0));
            }
            let way = tcp(&play.found());
            let expected = if again { (1, 0) } else { (0, 1) };
            assert_eq!((way.retransmitted_packets, way.reordered_packets), expected);
            assert_eq!(way.unique_bytes, 3000);
        }
        // At the sender both copies are seen.
        let mut play = Play::new(stamps);
        play.sends(200, 0);
        play.sends(201, 1);
        play.acknowledges(300, 0);
        play.acknowledges(301, 0);
        play.sends(330, 0);
        play.acknowledges(430, 2);
        let way = tcp(&play.found());
        assert_eq!((way.retransmitted_packets, way.retransmitted_bytes), (1, 1000));
        assert_eq!(way.duplicate_ack_packets, 2, "the handshake's acknowledgement, twice more");
        assert_eq!(way.rtt.expect("that of the handshake").samples, 1, "Karn: nobody knows which");
    }
}

#[test]
fn a_segment_that_its_receiver_dropped_is_a_loss_at_the_receiver() {
    for was_dropped in [false, true] {
        let mut play = Play::new(false);
        // The answer comes at once: the capture is that of the listener.
        play.packets[1].at_ns = play.packets[0].at_ns;
        for number in 0..3 {
            play.sends(200, number);
            play.acknowledges(200, if was_dropped { number.min(1) } else { number + 1 });
        }
        play.sends(300, 1);
        play.acknowledges(300, 3);
        play.sends(400, 3);
        let series = found(&play.packets).series.remove(0);
        let late = series.samples.last().expect("a sample").tcp.out_of_order_segments;
        assert_eq!(late, Some(u64::from(was_dropped)));
    }
}

#[test]
fn an_acknowledgement_of_bytes_far_ahead_is_a_damaged_packet() {
    let mut play = Play::new(false);
    play.sends(200, 0);
    play.acknowledges(300, 1 << 19);
    play.acknowledges(301, 1);
    assert_eq!(tcp(&play.found()).unseen_bytes, 0);
    assert!(found(&play.packets).series[0].sent_bytes() < u64::from(2 * MSS));
}

#[test]
fn the_round_trips_tell_where_the_capture_was_taken() {
    let mut play = Play::new(false);
    assert_eq!(play.found().capture_point, Some(CapturePoint::Opener));
    let set_times = |play: &mut Play, times: [u64; 3]| {
        for (packet, at_ms) in play.packets.iter_mut().zip(times) {
            packet.at_ns = at_ms * MS;
        }
    };
    set_times(&mut play, [0, 0, 100]);
    assert_eq!(play.found().capture_point, Some(CapturePoint::Listener));
    set_times(&mut play, [0, 40, 100]);
    assert_eq!(play.found().capture_point, Some(CapturePoint::Between));
    play.packets.remove(0);
    assert_eq!(play.found().capture_point, None, "half of a handshake tells nothing");
}

#[test]
fn the_window_shifts_are_those_of_the_end_where_the_capture_was_taken() {
    let read_shifts = |play: &Play| {
        let options = found(&play.packets).series[0].options.expect("a handshake");
        (options.receive_window_shift, options.send_window_shift)
    };
    let mut play = Play::new(false);
    assert_eq!(read_shifts(&play), (Some(7), Some(9)), "at the opener");
    play.packets[1].at_ns = play.packets[0].at_ns;
    assert_eq!(read_shifts(&play), (Some(9), Some(7)), "at the listener");
}

#[test]
fn a_large_segment_that_never_arrives_although_small_ones_do_is_blocked() {
    let mut play = Play::new(false);
    let send = |play: &mut Play, at_ms, from, bytes| {
        play.put(at_ms, true, TcpFlags::ACK, (from, 1, bytes), TcpHeaderOptions::default());
    };
    send(&mut play, 200, 1, 100);
    play.put(300, false, TcpFlags::ACK, (1, 101, 0), TcpHeaderOptions::default());
    for at_ms in [301, 801, 1801, 3801] {
        send(&mut play, at_ms, 101, 1400);
    }
    let way = tcp(&play.found());
    assert_eq!((way.blocked_payload_bytes, way.timeouts), (Some(1400), 3));
    assert_eq!(way.timeout_us, 3_500_000);
    play.put(3901, false, TcpFlags::ACK, (1, 1501, 0), TcpHeaderOptions::default());
    assert_eq!(tcp(&play.found()).blocked_payload_bytes, None, "it arrived");
}

#[test]
fn a_reset_with_another_hop_limit_is_foreign() {
    for (hop_limit, expected) in [(64, 0), (65, 0), (250, 1)] {
        let mut play = Play::new(false);
        play.put(300, true, TcpFlags::RST, (1, 1, 0), TcpHeaderOptions::default());
        play.packets[3].hop_limit = hop_limit;
        assert_eq!(tcp(&play.found()).foreign_reset_packets, expected, "hop limit {hop_limit}");
    }
}

#[test]
fn a_sack_block_below_the_acknowledgement_reports_a_duplicate() {
    let first = OPENER_FIRST.wrapping_add(1);
    for (edges, expected) in [((0, 1000), 1), ((2000, 3000), 0)] {
        let mut play = Play::new(false);
        (0..3).for_each(|number| play.sends(200, number));
        play.acknowledges(300, 1);
        if let PacketTransport::Tcp(segment) = &mut play.packets[6].transport {
            segment.options.first_sack =
                Some((first.wrapping_add(edges.0), first.wrapping_add(edges.1)));
        }
        assert_eq!(tcp(&play.found()).duplicate_sack_packets, expected, "{edges:?}");
    }
}

#[test]
fn a_short_segment_and_a_pause_are_time_of_the_application() {
    // Of every 100 ms, 50 pass between the end of one burst and the next.
    let play_bursts = |last_bytes: u32| {
        let mut play = Play::new(false);
        let mut sent = 1;
        for burst in 0..20 {
            let at_ms = 200 + 100 * burst;
            for bytes in [1460, last_bytes] {
                let options = TcpHeaderOptions::default();
                play.put(at_ms + 40, true, TcpFlags::ACK, (sent, 1, bytes), options);
                sent += bytes;
            }
            play.put(at_ms + 90, false, TcpFlags::ACK, (1, sent, 0), TcpHeaderOptions::default());
        }
        let series = found(&play.packets).series.remove(0);
        let flagged = series.samples.iter().filter(|it| it.tcp.app_limited == Some(true)).count();
        flagged as f64 / series.samples.len() as f64
    };
    assert!(play_bursts(700) > 0.8, "the sender could have filled its last segment");
    assert!(play_bursts(1460) < 0.2, "the window of the peer is not full, but nothing tells");
}

#[test]
fn paced_bursts_that_acknowledgements_release_show_a_full_send_buffer() {
    // A burst of 24 segments, one each millisecond, begins so long after the acknowledgement of the last.
    let play_bursts = |delay_ms: u64| {
        let mut play = Play::new(false);
        let mut sent = 1;
        for burst in 0..40 {
            let at_ms = 200 + 100 * burst;
            play.put(at_ms, false, TcpFlags::ACK, (1, sent, 0), TcpHeaderOptions::default());
            for number in 0..24 {
                let options = TcpHeaderOptions::default();
                play.put(at_ms + delay_ms + number, true, TcpFlags::ACK, (sent, 1, 1460), options);
                sent += 1460;
            }
        }
        let series = found(&play.packets).series.remove(0);
        let flagged = series.samples.iter().filter(|it| it.tcp.app_limited == Some(true)).count();
        let last = series.samples.last().expect("a sample");
        let buffer_us = last.tcp.send_buffer_limited_us.expect("reconstructed");
        (buffer_us as f64 / 4e6, flagged as f64 / series.samples.len() as f64)
    };
    let (buffer, application) = play_bursts(0);
    assert!(buffer > 0.5 && application < 0.1, "{buffer}, {application}");
    let (buffer, application) = play_bursts(40);
    assert!(buffer < 0.1 && application > 0.5, "the program was late: {buffer}, {application}");
}

#[test]
fn single_full_segments_in_even_pauses_are_paced_even_soon_after_a_loss_and_with_nothing_in_flight()
{
    let mut play = Play::new(false);
    play.put(150, true, TcpFlags::ACK, (1, 1, 1460), TcpHeaderOptions::default());
    for number in 0..200 {
        let (at_ms, sent) = (200 + 20 * number, 1 + 1460 * number as u32);
        play.put(at_ms, true, TcpFlags::ACK, (sent, 1, 1460), TcpHeaderOptions::default());
        let options = TcpHeaderOptions::default();
        play.put(at_ms + 3, false, TcpFlags::ACK, (1, sent + 1460, 0), options);
    }
    let series = found(&play.packets).series.remove(0);
    assert_eq!(series.max_pacing_bps, Some(584_000), "1460 bytes each 20 ms");
    let last = series.samples.last().expect("a sample");
    assert_eq!((last.tcp.retransmitted_segments, last.tcp.app_limited), (1, Some(false)));
}

#[test]
fn bytes_that_the_capture_missed_are_told_and_not_taken_for_lost() {
    let mut play = Play::new(false);
    play.sends(200, 0);
    play.sends(201, 2);
    play.acknowledges(300, 3);
    let way = tcp(&play.found());
    assert_eq!((way.unseen_bytes, way.retransmitted_packets), (1000, 0));
}

#[test]
fn without_a_handshake_no_shift_is_guessed() {
    let mut play = Play::new(false);
    play.packets.clear();
    play.sends(0, 5);
    play.acknowledges(50, 6);
    let flow = play.found();
    assert_eq!(flow.handshake, None);
    assert_eq!(tcp(&flow).largest_window_bytes, None);
    assert_eq!(tcp(&flow).rtt.expect("one").least_us, 50_000);
}

#[test]
fn payload_that_repeats_is_told_from_payload_that_differs() {
    let judged = |digest: fn(u32) -> u64, bytes| {
        let mut play = Play::new(false);
        for number in 0..10 {
            play.sends(200, number);
        }
        for (packet, number) in play.packets.iter_mut().skip(3).zip(0..) {
            packet.payload = Some(PayloadHead { bytes, digest: digest(number), is_ssh: false });
        }
        found(&play.packets).payload
    };
    let same = judged(|_| 7, 64).expect("judged");
    assert_eq!((same.packets, same.distinct_packets, same.most_repeated_packets), (10, 1, 10));
    let differing = judged(u64::from, 64).expect("judged");
    assert_eq!((differing.distinct_packets, differing.most_repeated_packets), (10, 1));
    assert_eq!(judged(u64::from, 20), None, "too little was captured");
}

#[test]
fn a_refusal_and_a_second_answer_do_not_move_the_bytes() {
    // A refused SYN is answered with the sequence number zero; a device may answer twice.
    for flags in [TcpFlags::RST | TcpFlags::ACK, TcpFlags::SYN | TcpFlags::ACK] {
        let mut play = Play::new(false);
        let options = TcpHeaderOptions::default();
        let at = if flags == TcpFlags::SYN | TcpFlags::ACK { 2 } else { 1 };
        play.put(50, false, flags, (500_000_000, 1, 0), options);
        let foreign = play.packets.pop().expect("a packet");
        play.packets.insert(at, foreign);
        for number in 0..3 {
            play.put(200, false, TcpFlags::ACK, (1 + number * MSS, 1, MSS), options);
        }
        let way = play.found().reverse.tcp.expect("TCP");
        let misplaced = way.retransmitted_packets + way.reordered_packets + way.unseen_bytes;
        assert_eq!((way.unique_bytes, misplaced), (3000, 0));
    }
}

#[test]
fn ports_that_are_used_again_make_another_flow() {
    let mut play = Play::new(false);
    play.sends(200, 0);
    let options = TcpHeaderOptions::default();
    play.put(300, true, TcpFlags::FIN | TcpFlags::ACK, (1 + MSS, 1, 0), options);
    play.put(400, true, TcpFlags::SYN, (900_000_000, 0, 0), options);
    play.put(600, true, TcpFlags::ACK, (900_000_001, 1, MSS), options);
    let found = found(&play.packets);
    let bytes = found.flows.iter().map(|flow| (tcp(flow).unique_bytes, flow.started_us));
    assert_eq!(bytes.collect::<Vec<_>>(), [(1000, 0), (1000, 400_000)]);
    assert!(found.flows.iter().all(|flow| tcp(flow).retransmitted_packets == 0));
}

#[test]
fn without_a_handshake_three_milliseconds_tell_a_retransmit() {
    // The packets of 1 and 3 were missing at first; that of 1 lies before the first of the capture.
    for (filled_at, expected) in [(203, (0, 2)), (205, (2, 0))] {
        let mut play = Play::new(false);
        play.packets.clear();
        for (at_ms, number) in [(201, 2), (201, 4), (filled_at, 3), (filled_at, 1)] {
            play.sends(at_ms, number);
        }
        let way = tcp(&play.found());
        assert_eq!((way.retransmitted_packets, way.reordered_packets), expected);
        assert_eq!((way.unique_bytes, way.unseen_bytes), (4000, 0));
    }
}

#[test]
fn flows_are_bounded_and_the_rest_is_counted() {
    let mut play = Play::new(false);
    (0..20).for_each(|number| play.sends(100, number));
    let packet = play.packets[0].clone();
    let most = MAX_CAPTURE_FLOWS + MAX_ENDED_FLOWS;
    let ports = 0..most as u16 + 1000;
    let others = ports.map(|port| DecodedPacket { from: address(9, port), ..packet.clone() });
    play.packets.extend(others);
    let found = found(&play.packets);
    assert!((MAX_ENDED_FLOWS..=most).contains(&found.flows.len()) && found.left_out_packets > 0);
    let counted: u64 = found.flows.iter().map(|it| it.forward.packets + it.reverse.packets).sum();
    assert_eq!(counted + found.left_out_packets, play.packets.len() as u64);
    let largest = found.flows.iter().map(|flow| flow.forward.payload_bytes).max();
    assert_eq!(largest, Some(20 * u64::from(MSS)), "a large flow stays");
}

prop_compose! {
    fn any_packet()(
        at_ns in any::<u64>(), from in 1_u8..4, to in 1_u8..4, udp in any::<bool>(),
        (sequence, acknowledged) in (any::<u32>(), any::<u32>()),
        (flags, window, payload_bytes) in (any::<u16>(), any::<u16>(), any::<u32>()),
        timestamps in any::<Option<(u32, u32)>>(), window_shift in any::<Option<u8>>(),
        wire_bytes in any::<u32>(),
    ) -> DecodedPacket {
        let options = TcpHeaderOptions { timestamps, window_shift, ..TcpHeaderOptions::default() };
        let segment = TcpHeader { sequence, acknowledged, flags: TcpFlags(flags), window, options };
        DecodedPacket {
            at_ns, from: address(from, 1), to: address(to, 2), wire_bytes, payload_bytes,
            payload: None, ecn: 3, hop_limit: 64,
            transport: if udp { PacketTransport::Udp } else { PacketTransport::Tcp(segment) },
        }
    }
}

proptest! {
    #[test]
    fn any_packets_are_counted_once_each(
        packets in prop::collection::vec(any_packet(), 0..200),
    ) {
        let found = found(&packets);
        let counted: u64 = found.flows.iter().map(|it| it.forward.packets + it.reverse.packets).sum();
        prop_assert_eq!(counted, packets.len() as u64);
        for flow in &found.flows {
            for tcp in [&flow.forward, &flow.reverse].into_iter().filter_map(|it| it.tcp) {
                prop_assert!(tcp.retransmitted_packets + tcp.reordered_packets <= counted);
            }
        }
    }

    #[test]
    fn a_transfer_in_order_is_never_called_lost(
        sizes in prop::collection::vec(1_u32..70_000, 1..300), first in any::<u32>(),
    ) {
        let mut play = Play::new(false);
        play.packets.clear();
        let mut sequence = first;
        for (size, at_ms) in sizes.iter().zip(0..) {
            play.put(at_ms, true, TcpFlags::ACK, (sequence, 1, *size), TcpHeaderOptions::default());
            sequence = sequence.wrapping_add(*size);
        }
        let way = tcp(&play.found());
        prop_assert_eq!(way.unique_bytes, sizes.iter().map(|it| u64::from(*it)).sum::<u64>());
        prop_assert_eq!(way.retransmitted_packets + way.reordered_packets, 0);
    }
}

#[test]
fn ssh_is_recognised_by_the_first_payload_of_an_end_only() {
    for (number, is_first) in [(0, true), (3, false)] {
        let mut play = Play::new(false);
        for sent in 0..=number {
            play.sends(200 + u64::from(sent), sent);
        }
        let last = play.packets.last_mut().expect("a packet");
        last.payload = Some(PayloadHead { bytes: 64, digest: 1, is_ssh: true });
        assert_eq!(play.found().ssh, is_first, "packet {number}");
    }
}
