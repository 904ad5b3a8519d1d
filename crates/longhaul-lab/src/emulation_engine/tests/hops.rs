//! Tests of MPLS labels, parallel routers, middleboxes, forged ICMP, and hosts that receive packets
//! in batches.

use super::bench::*;
use super::packet_builder::{DraftTransport, PacketDraft};
use super::wire::{Icmp, icmp, ones_sum, segments};
use crate::emulation_engine::{EmulationEngine, LabHost, Nanos};
use crate::path_spec::{HopSpec, IcmpValidity, OptionRewrite, PathSpec};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// Returns four hops of 1 ms each way with the given second hop.
fn with_second(second: HopSpec) -> PathSpec {
    let plain = |name| hop(name, delay(1), delay(1));
    let second = HopSpec { name: "r2".to_owned(), forward: delay(1), reverse: delay(1), ..second };
    path(vec![plain("r1"), second, plain("r3"), plain("far")])
}

fn v6_udp() -> PacketDraft {
    PacketDraft::udp(IpAddr::V6(LabHost::Near.address().v6), IpAddr::V6(LabHost::Far.address().v6))
}

/// Returns the answer to a packet whose TTL expires.
fn answer(engine: &mut EmulationEngine, draft: &PacketDraft, now: Nanos) -> Icmp {
    send(engine, LabHost::Near, draft, &[7; 24], now);
    let arrivals = collect(engine, now + SECOND);
    assert_eq!(arrivals.len(), 1, "one answer");
    assert_eq!(arrivals[0].host, LabHost::Near);
    icmp(&arrivals[0])
}

#[test]
fn labels_come_behind_a_quote_of_128_bytes_whose_length_is_said() {
    let spec = with_second(HopSpec { mpls: vec![16_001, 1_048_575], ..HopSpec::default() });
    for (draft, length) in [(udp(), 32 << 16), (v6_udp(), 16 << 24)] {
        let mut engine = EmulationEngine::new(&spec, 0);
        let message = answer(&mut engine, &PacketDraft { ttl: 2, ..draft }, 0);
        assert_eq!(message.word, length);
        let (quote, extension) = message.body.split_at(128);
        let sent = if message.from.len() == 4 { 20 } else { 40 } + 8 + 24;
        assert!(quote[sent..].iter().all(|byte| *byte == 0), "padding");
        assert_eq!(extension.len(), 4 + 4 + 8);
        assert_eq!(ones_sum(extension), 0xffff, "checksum of the extensions");
        assert_eq!(extension[0] >> 4, 2, "version");
        assert_eq!(extension[4..8], [0, 12, 1, 1]);
        let entry = |at: usize| {
            let bytes: [u8; 4] = extension[at..at + 4].try_into().expect("four bytes");
            let word = u32::from_be_bytes(bytes);
            (word >> 12, word >> 8 & 1, word & 0xff)
        };
        assert_eq!([entry(8), entry(12)], [(16_001, 0, 1), (1_048_575, 1, 1)]);
        // The neighbouring routers have no labels.
        let plain = answer(&mut engine, &PacketDraft { ttl: 1, ..draft }, SECOND);
        assert_eq!((plain.word, plain.body.len()), (0, sent));
    }
}

#[test]
fn flows_spread_over_ways_side_by_side_and_each_keeps_to_its_own() {
    let spec = with_second(HopSpec { balance: 4, ..HopSpec::default() });
    let mut engine = EmulationEngine::new(&spec, 0);
    let mut addresses = BTreeSet::new();
    let mut now = 0;
    for source_port in 30_000..30_064 {
        let flow = PacketDraft { source_port, ttl: 2, ..udp() };
        let mut again = || {
            now += SECOND;
            answer(&mut engine, &flow, now).from
        };
        let first = again();
        assert_eq!(first, again(), "port {source_port}");
        addresses.insert(first);
    }
    let expected = (77..81).map(|second| vec![10, second, 1, 2]);
    assert_eq!(addresses, expected.collect());
    // Each parallel router answers at its own address.
    let to = IpAddr::from([10, 80, 1, 2]);
    let (near, _) = near_to_far();
    let closed = answer(&mut engine, &PacketDraft::udp(near, to), now + SECOND);
    assert_eq!((closed.kind, closed.code), (3, 3));
    send(
        &mut engine,
        LabHost::Near,
        &PacketDraft::udp(near, IpAddr::from([10, 81, 1, 2])),
        &[],
        now,
    );
    assert_eq!(engine.truth(now).totals.foreign, 1, "there is no fifth");
}

/// The options of a SYN as Linux sends it: MSS 1460, SACK permitted, timestamps, NOP, window scale
/// 10.
const OFFERED: [u8; 20] = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 10];

/// Sends a SYN with `OFFERED`; its checksum is complete or left to the device.
fn send_syn(engine: &mut EmulationEngine, host: LabHost, ttl: u8, is_summed: bool, now: Nanos) {
    let (near, far) = near_to_far();
    let (source, destination) = if host == LabHost::Near { (near, far) } else { (far, near) };
    let transport = DraftTransport::Tcp { sequence: 1, flags: 2 };
    let draft = PacketDraft { ttl, transport, ..PacketDraft::tcp(source, destination, 1) };
    let space = engine.reserve();
    let len = draft.write(space, &OFFERED);
    let tcp = &mut space[30..len];
    tcp[12] = 10 << 4;
    if is_summed {
        let value = !(ones_sum(tcp) as u16);
        tcp[16..18].copy_from_slice(&value.to_be_bytes());
        space[..10].fill(0);
    }
    engine.accept(host, len, now);
}

fn tcp_sum(ip: &[u8]) -> u32 {
    let mut pseudo = ip[12..20].to_vec();
    pseudo.extend_from_slice(&[0, 6, 0, ip.len() as u8 - 20]);
    let sum = ones_sum(&pseudo) + ones_sum(&ip[20..]);
    (sum & 0xffff) + (sum >> 16)
}

fn stripping() -> PathSpec {
    with_second(HopSpec {
        rewrite: OptionRewrite {
            sack: true,
            window_scale: false,
            timestamps: true,
            clamp_mss: Some(1300),
        },
        ..HopSpec::default()
    })
}

/// MSS 1300, SACK and timestamps gone, window scale kept.
const LEFT: [u8; 20] = [2, 4, 5, 20, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 10];

#[test]
fn a_middlebox_takes_options_out_of_a_handshake_both_ways_and_keeps_its_checksum() {
    for host in [LabHost::Near, LabHost::Far] {
        let mut engine = EmulationEngine::new(&stripping(), 0);
        send_syn(&mut engine, host, 64, true, 0);
        send_syn(&mut engine, host, 64, false, MS);
        let arrivals = collect(&mut engine, SECOND);
        assert_eq!(arrivals.len(), 2);
        for arrival in &arrivals {
            assert_eq!(arrival.host, host.other());
            assert_eq!(arrival.ip()[40..], LEFT);
        }
        assert_eq!(tcp_sum(arrivals[0].ip()), 0xffff);
        // The device's part of the checksum is still requested.
        assert_eq!(segments(&arrivals[1])[0].flags, 2);
    }
}

#[test]
fn what_a_router_quotes_shows_whether_it_stands_behind_the_middlebox() {
    let mut engine = EmulationEngine::new(&stripping(), 0);
    for (ttl, options) in [(1, OFFERED), (2, OFFERED), (3, LEFT)] {
        let now = u64::from(ttl) * SECOND;
        send_syn(&mut engine, LabHost::Near, ttl, false, now);
        let message = icmp(&collect(&mut engine, now + SECOND)[0]);
        assert_eq!(message.body[40..], options, "TTL {ttl}");
        assert_eq!(tcp_sum(&message.body), 0xffff, "TTL {ttl}");
    }
}

#[test]
fn packets_without_syn_pass_a_middlebox_as_they_are() {
    let mut engine = EmulationEngine::new(&stripping(), 0);
    let payload: Vec<u8> = (0..40 * 1448).map(|k| k as u8).collect();
    send(&mut engine, LabHost::Near, &tcp(5), &payload, 0);
    let arrivals = collect(&mut engine, SECOND);
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].ip()[40..], payload);
}

#[test]
fn a_host_that_is_interrupted_now_and_then_gets_what_has_come_until_then() {
    let mut spec = one_link(delay(1));
    spec.far.batch = Duration::from_micros(100);
    let mut engine = EmulationEngine::new(&spec, 0);
    for at in [0, 30_000, 99_000, 150_000, 400_000] {
        send(&mut engine, LabHost::Near, &udp(), &[1; 100], at);
    }
    let due: Vec<Nanos> =
        collect(&mut engine, SECOND).iter().map(|arrival| arrival.due - MS).collect();
    assert_eq!(due, [100_000, 100_000, 100_000, 250_000, 500_000]);
    // The near host does not batch.
    let (near, far) = near_to_far();
    send(&mut engine, LabHost::Far, &PacketDraft::udp(far, near), &[1], SECOND);
    assert_eq!(collect(&mut engine, 2 * SECOND)[0].due - SECOND, MS);
    assert_eq!(engine.packets_held(), 0);
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn a_liar_says_sound_messages_that_fit_no_packet(
        forged: bool, is_v6: bool, seed: u64, payload in 0usize..200
    ) {
        let icmp_manners = if forged { IcmpValidity::Forged } else { IcmpValidity::Garbage };
        let mut spec = with_second(HopSpec { icmp: icmp_manners, ..HopSpec::default() });
        spec.seed = seed;
        let mut engine = EmulationEngine::new(&spec, 0);
        let draft = PacketDraft { ttl: 2, ..if is_v6 { v6_udp() } else { udp() } };
        let mut honest = EmulationEngine::new(&with_second(HopSpec::default()), 0);
        send(&mut honest, LabHost::Near, &draft, &vec![1; payload], 0);
        let truth = icmp(&collect(&mut honest, SECOND)[0]).body;
        for k in 0..30 {
            let now = k * SECOND;
            send(&mut engine, LabHost::Near, &draft, &vec![1; payload], now);
            let arrivals = collect(&mut engine, now + SECOND);
            prop_assert_eq!(arrivals.len(), 1);
            let message = icmp(&arrivals[0]);
            prop_assert_eq!(message.kind, if is_v6 { 3 } else { 11 });
            if forged {
                prop_assert_eq!(message.body.len(), truth.len());
                prop_assert_ne!(&message.body, &truth);
            }
        }
        prop_assert_eq!(engine.packets_held(), 0);
    }
}
