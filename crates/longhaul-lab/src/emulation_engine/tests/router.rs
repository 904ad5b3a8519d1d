//! Tests of routers: TTL, ICMP, silence, limits.

use super::bench::*;
use super::packet_builder::{DraftTransport, PacketDraft};
use super::wire::{Icmp, icmp, segments};
use crate::emulation_engine::{EmulationEngine, LabHost, router_address};
use crate::path_spec::{LinkSpec, PathSpec};
use std::net::IpAddr;
use std::time::Duration;

/// Returns 43 hops of 1 ms out and 2 ms back, every seventh with a rate.
fn long_path() -> PathSpec {
    let hops = (1..=43).map(|k| {
        let forward = if k % 7 == 0 {
            LinkSpec { delay: Duration::from_millis(1), ..rate(10_000_000) }
        } else {
            delay(1)
        };
        hop(&format!("r{k}"), forward, delay(2))
    });
    path(hops.collect())
}

fn v6_udp() -> PacketDraft {
    PacketDraft::udp(IpAddr::V6(LabHost::Near.address().v6), IpAddr::V6(LabHost::Far.address().v6))
}

#[test]
fn ttl_ends_at_each_router_in_turn_and_the_answer_takes_the_way_back() {
    for is_v6 in [false, true] {
        let mut engine = EmulationEngine::new(&long_path(), 0);
        for ttl in 1..=43u8 {
            let draft = PacketDraft { ttl, ..if is_v6 { v6_udp() } else { udp() } };
            let now = u64::from(ttl) * SECOND;
            send(&mut engine, LabHost::Near, &draft, &[3; 32], now);
            let arrivals = collect(&mut engine, now + SECOND);
            assert_eq!(arrivals.len(), 1, "TTL {ttl}");
            let arrival = &arrivals[0];
            if ttl == 43 {
                assert_eq!(arrival.host, LabHost::Far);
                assert_eq!(segments(arrival)[0].ttl, 1);
                continue;
            }
            assert_eq!(arrival.host, LabHost::Near);
            let rtt = arrival.due - now;
            assert!(rtt.abs_diff(u64::from(ttl) * 3 * MS) < 1000, "TTL {ttl}: {rtt}");
            let Icmp { from, ttl: left, kind, code, body, .. } = icmp(arrival);
            let number = usize::from(ttl);
            if is_v6 {
                assert_eq!(from, router_address(0, number).v6.octets());
                assert_eq!((kind, code), (3, 0));
            } else {
                assert_eq!(from, router_address(0, number).v4.octets());
                assert_eq!((kind, code), (11, 0));
            }
            assert_eq!(left, 255 - (ttl - 1), "routers on the way back");
            let quoted_ttl = if is_v6 { body[7] } else { body[8] };
            assert_eq!(quoted_ttl, 1, "as the router saw it");
        }
        assert_eq!(engine.packets_held(), 0);
        let truth = engine.truth(100 * SECOND);
        let expired: u64 = truth.routes[0].hops.iter().map(|hop| hop.forward.drops.ttl).sum();
        assert_eq!(expired, 42);
        assert_eq!(truth.totals.generated.packets, 42);
        assert_eq!(truth.routes[0].hops[4].forward.entered.packets, 43 - 4);
        assert_eq!(truth.routes[0].hops[4].reverse.entered.packets, 42 - 4);
    }
}

#[test]
fn the_quoted_packet_is_as_it_was_on_the_wire() {
    let mut engine = EmulationEngine::new(&long_path(), 0);
    let draft = PacketDraft { ttl: 3, ..udp() };
    send(&mut engine, LabHost::Near, &draft, &[9; 31], 0);
    let body = icmp(&collect(&mut engine, SECOND)[0]).body;
    assert_eq!(body.len(), 20 + 8 + 31);
    assert_eq!(super::wire::ones_sum(&body[..20]), 0xffff, "IP checksum");
    let mut pseudo = body[12..20].to_vec();
    pseudo.extend_from_slice(&[0, 17, 0, 39]);
    let sum = super::wire::ones_sum(&pseudo) + super::wire::ones_sum(&body[20..]);
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "UDP checksum, completed");
    assert_eq!(body[20..24], [0x9c, 0x40, 0x14, 0x51], "ports 40000 and 5201");
}

#[test]
fn a_super_packet_that_expires_is_answered_once_with_its_first_segment() {
    let mut engine = EmulationEngine::new(&long_path(), 0);
    let draft = PacketDraft { ttl: 2, ..tcp(77) };
    send(&mut engine, LabHost::Near, &draft, &vec![1; 44 * 1448], 0);
    let arrivals = collect(&mut engine, SECOND);
    assert_eq!(arrivals.len(), 1);
    let body = icmp(&arrivals[0]).body;
    assert_eq!(body.len(), 128);
    assert_eq!(body[2..4], 1488u16.to_be_bytes());
    assert_eq!(body[24..28], 77u32.to_be_bytes());
    assert_eq!(engine.truth(SECOND).totals.dropped.packets, 44);
}

fn echo_request(engine: &mut EmulationEngine, to: IpAddr, now: u64) {
    let is_v4 = to.is_ipv4();
    let from = if is_v4 {
        IpAddr::V4(LabHost::Near.address().v4)
    } else {
        IpAddr::V6(LabHost::Near.address().v6)
    };
    let draft = PacketDraft::udp(from, to);
    let space = engine.reserve();
    let len = draft.write(space, &[0xab; 56]);
    space[..10].fill(0);
    let network = 10 + draft.header_bytes() - 8;
    let (protocol, kind) = if is_v4 { (1, 8) } else { (58, 128) };
    space[if is_v4 { 19 } else { 16 }] = protocol;
    space[network..network + 8].copy_from_slice(&[kind, 0, 0, 0, 0x12, 0x34, 0, 7]);
    engine.accept(LabHost::Near, len, now);
}

#[test]
fn a_router_answers_ping_from_its_place() {
    for to in [IpAddr::V4(router_address(0, 5).v4), IpAddr::V6(router_address(0, 5).v6)] {
        let mut engine = EmulationEngine::new(&long_path(), 0);
        echo_request(&mut engine, to, 0);
        let arrivals = collect(&mut engine, SECOND);
        assert_eq!(arrivals.len(), 1, "{to}");
        assert_eq!(arrivals[0].due, 15 * MS);
        let reply = icmp(&arrivals[0]);
        assert_eq!(reply.kind, if to.is_ipv4() { 0 } else { 129 });
        assert_eq!(reply.word, 0x1234_0007);
        assert_eq!(reply.body, [0xab; 56]);
        assert_eq!(engine.truth(SECOND).totals.consumed.packets, 1);
    }
}

#[test]
fn a_closed_port_of_a_router_is_unreachable() {
    let far_end = IpAddr::V4(router_address(0, 9).v4);
    let (near, _) = near_to_far();
    let drafts = [PacketDraft::udp(near, far_end), PacketDraft::tcp(near, far_end, 1)];
    for draft in drafts {
        let mut engine = EmulationEngine::new(&long_path(), 0);
        send(&mut engine, LabHost::Near, &draft, &[1; 20], 0);
        let reply = icmp(&collect(&mut engine, SECOND)[0]);
        assert_eq!((reply.kind, reply.code), (3, 3));
    }
}

#[test]
fn the_far_host_sees_the_path_from_its_own_end() {
    let mut engine = EmulationEngine::new(&long_path(), 0);
    let (near, far) = near_to_far();
    send(
        &mut engine,
        LabHost::Far,
        &PacketDraft { ttl: 2, ..PacketDraft::udp(far, near) },
        &[0; 8],
        0,
    );
    let arrivals = collect(&mut engine, SECOND);
    assert_eq!(arrivals[0].host, LabHost::Far);
    assert_eq!(icmp(&arrivals[0]).from, router_address(0, 41).v4.octets());
    assert!(arrivals[0].due.abs_diff(6 * MS) < 1000);
}

#[test]
fn a_silent_router_says_nothing_and_errors_are_not_answered() {
    let mut spec = long_path();
    spec.hops[1].silent = true;
    let mut engine = EmulationEngine::new(&spec, 0);
    send(&mut engine, LabHost::Near, &PacketDraft { ttl: 2, ..udp() }, &[0; 8], 0);
    // A destination unreachable message with TTL 1.
    let space = engine.reserve();
    let len = PacketDraft { ttl: 1, ..udp() }.write(space, &[0; 40]);
    space[..10].fill(0);
    space[19] = 1;
    space[30] = 3;
    engine.accept(LabHost::Near, len, 0);
    assert!(collect(&mut engine, SECOND).is_empty());
    assert_eq!(engine.truth(SECOND).totals.dropped.packets, 2);
}

#[test]
fn a_router_keeps_to_its_icmp_limit_and_takes_its_time() {
    let mut spec = long_path();
    spec.hops[2].icmp_limit = Some(20);
    spec.hops[2].icmp_delay = Duration::from_millis(4);
    let mut engine = EmulationEngine::new(&spec, 0);
    for k in 0..100 {
        send(&mut engine, LabHost::Near, &PacketDraft { ttl: 3, ..udp() }, &[0; 8], k * 10 * MS);
    }
    let arrivals = collect(&mut engine, 10 * SECOND);
    // Two at once, then 20 per second over 0.99 s.
    assert_eq!(arrivals.len(), 2 + 19);
    assert_eq!(arrivals[0].due, 13 * MS);
    let router = engine.truth(10 * SECOND).routes[0].hops[2].router;
    assert_eq!((router.icmp_sent, router.icmp_withheld), (21, 79));
}

#[test]
fn a_packet_too_large_is_told_the_mtu_unless_the_link_is_a_black_hole() {
    for (black_hole, is_v6) in [(false, false), (false, true), (true, false)] {
        let mut spec = long_path();
        spec.hops[3].forward.mtu = Some(1400);
        spec.hops[3].forward.mtu_black_hole = black_hole;
        let mut engine = EmulationEngine::new(&spec, 0);
        let draft = if is_v6 { v6_udp() } else { udp() };
        send(&mut engine, LabHost::Near, &draft, &vec![0; 1400], 0);
        send(&mut engine, LabHost::Near, &draft, &vec![0; 1300], MS);
        let arrivals = collect(&mut engine, SECOND);
        let (answers, through): (Vec<_>, Vec<_>) =
            arrivals.iter().partition(|it| it.host == LabHost::Near);
        assert_eq!(through.len(), 1);
        assert_eq!(engine.truth(SECOND).routes[0].hops[3].forward.drops.mtu, 1);
        if black_hole {
            assert!(answers.is_empty());
            continue;
        }
        let answer = icmp(answers[0]);
        assert_eq!((answer.kind, answer.code), if is_v6 { (2, 0) } else { (3, 4) });
        assert_eq!(answer.word, 1400);
        assert_eq!(answer.ttl, 255 - 2, "from the router before the link");
    }
}

#[test]
fn segments_within_the_mtu_pass_in_one_super_packet() {
    let mut spec = long_path();
    spec.hops[3].forward.mtu = Some(1488);
    let mut engine = EmulationEngine::new(&spec, 0);
    let transport = DraftTransport::Tcp { sequence: 0, flags: 0x10 };
    send(&mut engine, LabHost::Near, &PacketDraft { transport, ..tcp(0) }, &vec![0; 20 * 1448], 0);
    let arrivals = collect(&mut engine, SECOND);
    assert_eq!(arrivals.len(), 1);
    assert_eq!(segments(&arrivals[0]).len(), 20);
}
