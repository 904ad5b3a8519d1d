//! Tests of input that hosts should not send, but may.

use super::bench::*;
use super::packet_builder::PacketDraft;
use crate::emulation_engine::{EmulationEngine, LabHost};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn feed(engine: &mut EmulationEngine, bytes: &[u8]) {
    engine.reserve()[..bytes.len()].copy_from_slice(bytes);
    engine.accept(LabHost::Near, bytes.len(), 0);
    collect(engine, SECOND);
}

/// Returns a valid packet to corrupt.
fn sound(is_v6: bool, payload: usize) -> Vec<u8> {
    let (near, far) = if is_v6 {
        (IpAddr::V6(LabHost::Near.address().v6), IpAddr::V6(LabHost::Far.address().v6))
    } else {
        near_to_far()
    };
    let draft = PacketDraft { segment_bytes: Some(500), ..PacketDraft::tcp(near, far, 0) };
    let mut bytes = vec![0; payload + 100];
    let len = draft.write(&mut bytes, &vec![0; payload]);
    bytes.truncate(len);
    bytes
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ethernet: bool,
    ) {
        let mut engine = EmulationEngine::new(&one_link(rate(100)), 0);
        if ethernet {
            engine = engine.with_ethernet([[0; 6]; 2]);
        }
        feed(&mut engine, &bytes);
        let totals = engine.truth(SECOND).totals;
        prop_assert_eq!(totals.malformed + totals.foreign + u64::from(totals.accepted.packets > 0), 1);
        prop_assert_eq!(engine.packets_held(), 0);
    }

    #[test]
    fn spoilt_headers_never_panic(
        is_v6: bool,
        payload in 0usize..40_000,
        spoil in proptest::collection::vec((0usize..72, any::<u8>()), 1..6),
        cut in 0usize..100,
        mbps in 1u64..10_000,
    ) {
        let mut bytes = sound(is_v6, payload);
        for (at, value) in spoil {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()) / 50);
        let hops = vec![hop("r", rate(mbps), delay(1)), hop("far", delay(1), delay(1))];
        let mut engine = EmulationEngine::new(&path(hops), 0);
        feed(&mut engine, &bytes);
        collect(&mut engine, 100 * SECOND);
        prop_assert_eq!(engine.packets_held(), 0);
        prop_assert_eq!(engine.truth(SECOND).totals.in_flight_packets(), 0);
    }
}

#[test]
fn what_is_not_for_this_path_is_counted_and_dropped() {
    let v6 = |text: &str| IpAddr::V6(text.parse::<Ipv6Addr>().expect("an address"));
    let near = IpAddr::V4(LabHost::Near.address().v4);
    let table = [
        (near, IpAddr::V4(Ipv4Addr::new(224, 0, 0, 251)), "multicast DNS"),
        (near, IpAddr::V4(Ipv4Addr::new(10, 77, 1, 9)), "no such router"),
        (near, near, "itself"),
        (
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            IpAddr::V4(LabHost::Far.address().v4),
            "not its address",
        ),
        (v6("fe80::1"), v6("ff02::2"), "router solicitation"),
        (v6("::"), v6("ff02::16"), "MLD report"),
    ];
    let mut engine = EmulationEngine::new(&one_link(delay(1)), 0);
    for (index, (from, to, name)) in table.iter().enumerate() {
        send(&mut engine, LabHost::Near, &PacketDraft::udp(*from, *to), &[0; 20], 0);
        assert_eq!(engine.truth(0).totals.foreign, index as u64 + 1, "{name}");
    }
    assert!(collect(&mut engine, SECOND).is_empty());
    assert_eq!(engine.truth(SECOND).totals.accepted.packets, 0);
}

#[test]
fn the_packet_space_holds_the_largest_packet() {
    let mut engine = EmulationEngine::new(&one_link(delay(1)), 0);
    assert!(engine.reserve().len() >= 66 * 1024);
    send(&mut engine, LabHost::Near, &tcp(0), &vec![0; 65_535 - 40], 0);
    assert_eq!(collect(&mut engine, SECOND)[0].ip().len(), 65_535);
}

#[test]
fn a_path_that_is_full_drops_and_recovers() {
    let mut engine = EmulationEngine::new(&one_link(delay(10)), 0).with_memory_limit(2 << 20);
    for round in 0..3 {
        let now = round * SECOND;
        for _ in 0..100 {
            send(&mut engine, LabHost::Near, &tcp(0), &vec![0; 60_000], now);
        }
        let truth = engine.truth(now);
        assert!(truth.totals.no_memory >= 60 * (round + 1), "{:?}", truth.totals);
        assert!(truth.memory_bytes < 3 << 20);
        assert!(collect(&mut engine, now + SECOND / 2).len() >= 30);
    }
    assert_eq!(engine.packets_held(), 0);
}
