//! Tests of timed events, routes, determinism and conservation.

use super::bench::*;
use super::packet_builder::PacketDraft;
use super::wire::{icmp, segments};
use crate::emulation_engine::{
    EmulationEngine, LabHost, Nanos, assign_router_addresses, router_address,
};
use crate::path_spec::{
    ChangeSpec, CrossPattern, CrossSpec, EventSpec, LinkPlace, LinkSpec, PathSpec, PolicerSpec,
    ReorderSpec, ShaperSpec,
};
use longhaul_model::units::{Bytes, Rate};
use proptest::prelude::*;
use std::time::Duration;

fn link_event(at_ms: u64, to: LinkSpec) -> EventSpec {
    let change = ChangeSpec::Link {
        place: LinkPlace { route: "main".to_owned(), hop: 0, forward: true },
        to: Box::new(to),
    };
    EventSpec { at: Duration::from_millis(at_ms), change }
}

#[test]
fn what_waits_leaves_at_the_new_rate() {
    // 100 packets of 1538 bytes take 123.04 ms at 10 Mbit/s. The 73.04 ms that are left at 50 ms
    // take a tenth of that at 100 Mbit/s, and twice as long at 5.
    for (new_rate, expected) in [(100, 57_304_000), (5, 196_080_000)] {
        let mut spec = one_link(rate(10));
        spec.events = vec![link_event(50, rate(new_rate))];
        let mut engine = EmulationEngine::new(&spec, 0);
        for _ in 0..100 {
            send(&mut engine, LabHost::Near, &udp(), &[0; 1472], 0);
        }
        let arrivals = collect(&mut engine, 10 * SECOND);
        assert_eq!(arrivals.len(), 100);
        assert_eq!(arrivals[39].due, 40 * 1_230_400, "sent before the change");
        let last = arrivals[99].due;
        assert!(last.abs_diff(expected) < 1000, "{new_rate}: {last}");
        assert!(arrivals.windows(2).all(|pair| pair[0].due < pair[1].due));
    }
}

#[test]
fn a_link_without_rate_lets_everything_go_at_once() {
    let mut spec = one_link(rate(1));
    spec.events = vec![link_event(20, LinkSpec::default())];
    let mut engine = EmulationEngine::new(&spec, 0);
    for _ in 0..10 {
        send(&mut engine, LabHost::Near, &udp(), &[0; 1472], 0);
    }
    let arrivals = collect(&mut engine, SECOND);
    assert_eq!(arrivals.len(), 10);
    assert!(arrivals[1..].iter().all(|it| it.due == 20 * MS));
    let truth = engine.truth(SECOND);
    assert_eq!(truth.events.len(), 1);
    assert_eq!(truth.events[0].at, Duration::from_millis(20));
    assert_eq!(truth.routes[0].hops[0].forward.queue_bytes, 0);
}

/// Returns 3 hops of 10 ms, and a route of 2 hops of 1 ms that is used from `at_ms` on.
fn two_routes(at_ms: u64) -> PathSpec {
    let main = ["a", "b", "far"].map(|name| hop(name, delay(10), delay(10)));
    let other = ["b", "far"].map(|name| hop(name, delay(1), delay(1)));
    let mut spec = path(main.into());
    spec.routes.insert("short".to_owned(), other.into());
    let change = ChangeSpec::Route("short".to_owned());
    spec.events = vec![EventSpec { at: Duration::from_millis(at_ms), change }];
    spec
}

#[test]
fn packets_sent_after_a_route_change_take_the_other_route() {
    let mut engine = EmulationEngine::new(&two_routes(100), 7 * SECOND);
    let start = 7 * SECOND;
    let mut arrivals = vec![];
    for k in 0..4 {
        let now = start + 85 * MS + k * 10 * MS;
        arrivals.extend(collect(&mut engine, now));
        send(&mut engine, LabHost::Near, &tcp(k as u32), &[0; 10], now);
    }
    arrivals.extend(collect(&mut engine, start + SECOND));
    let order: Vec<u32> = arrivals.iter().map(|it| segments(it)[0].sequence).collect();
    let due: Vec<Nanos> = arrivals.iter().map(|it| (it.due - start) / MS).collect();
    assert_eq!(due, [107, 115, 117, 125]);
    assert_eq!(order, [2, 0, 3, 1], "those in flight finish on the old route");
    let truth = engine.truth(start + SECOND);
    assert!(truth.routes[1].active && !truth.routes[0].active);
    assert_eq!(truth.events[0].text, "route short");
}

#[test]
fn a_path_that_begins_after_an_event_begins_as_the_event_left_it() {
    let mut spec = two_routes(100);
    spec.events.push(link_event(300, rate(1)));
    spec.begin_at = Duration::from_millis(150);
    let start = 7 * SECOND;
    let mut engine = EmulationEngine::new(&spec, start);
    let mut arrivals = collect(&mut engine, start);
    send(&mut engine, LabHost::Near, &tcp(0), &[0; 10], start);
    arrivals.extend(collect(&mut engine, start + 100 * MS));
    assert_eq!((arrivals[0].due - start) / MS, 2, "the short route");
    let truth = engine.truth(start + 100 * MS);
    assert_eq!(truth.begin_at, Duration::from_millis(150));
    assert_eq!(truth.at, Duration::from_millis(250));
    let times: Vec<Duration> = truth.events.iter().map(|event| event.at).collect();
    assert_eq!(times, [Duration::from_millis(100)], "when it was, not now");
    collect(&mut engine, start + 150 * MS);
    let truth = engine.truth(start + 150 * MS);
    assert_eq!(truth.events.len(), 2, "later events come in their time");
}

#[test]
fn a_router_of_two_routes_keeps_its_address() {
    let spec = two_routes(0);
    let addresses = assign_router_addresses(&spec);
    assert_eq!(addresses[0][1].v4, router_address(0, 2).v4);
    assert_eq!(addresses[1][0].v4, router_address(0, 2).v4, "router b");
    let mut engine = EmulationEngine::new(&spec, 0);
    collect(&mut engine, 0);
    send(&mut engine, LabHost::Near, &PacketDraft { ttl: 1, ..udp() }, &[0; 10], MS);
    let answer = &collect(&mut engine, SECOND)[0];
    assert_eq!(answer.due, 3 * MS);
    assert_eq!(icmp(answer).from, router_address(0, 2).v4.octets());
}

/// Returns a path on which everything happens at once.
fn everything(seed: u64) -> PathSpec {
    let megabits = |value: u64| Rate::bits_per_second(value * 1_000_000);
    let busy = LinkSpec {
        jitter: Duration::from_micros(300),
        loss: 0.01,
        reorder: Some(ReorderSpec { share: 0.02, late_by: Duration::from_millis(2) }),
        cross: Some(CrossSpec { rate: megabits(40), pattern: CrossPattern::Poisson }),
        ..queue(rate(100), 60_000)
    };
    let policed = LinkSpec {
        policer: Some(PolicerSpec { rate: megabits(60), burst: Bytes(50_000) }),
        ..delay(3)
    };
    let shaped = LinkSpec {
        shaper: Some(ShaperSpec {
            peak: megabits(70),
            sustained: megabits(30),
            burst: Bytes(200_000),
        }),
        ..queue(delay(2), 100_000)
    };
    let mut narrow = hop("narrow", LinkSpec { mtu: Some(1000), ..delay(1) }, delay(1));
    narrow.icmp_limit = Some(100);
    let mut spec = path(vec![
        hop("busy", busy.clone(), busy),
        hop("plain", delay(1), delay(1)),
        hop("policed", policed, rate(1000)),
        narrow,
        hop("plain too", delay(1), delay(1)),
        hop("far", shaped, delay(2)),
    ]);
    spec.seed = seed;
    spec.events = vec![link_event(60, rate(50)), link_event(90, queue(rate(200), 9000))];
    spec
}

/// A packet that a host sends: gap, from far, TTL, segment size, payload bytes.
type Sent = (u64, bool, u8, u16, usize);

/// Plays a script; `look` advances the engine to a time and returns what arrived.
fn play_with(
    engine: &mut EmulationEngine,
    script: &[Sent],
    look: impl Fn(&mut EmulationEngine, Nanos) -> Vec<Arrival>,
) -> Vec<Arrival> {
    let (near, far) = near_to_far();
    let mut arrivals = vec![];
    let mut now = 0;
    for (gap, from_far, ttl, size, len) in script {
        now += gap;
        arrivals.extend(look(engine, now));
        let (host, from, to) =
            if *from_far { (LabHost::Far, far, near) } else { (LabHost::Near, near, far) };
        let draft =
            PacketDraft { ttl: *ttl, segment_bytes: Some(*size), ..PacketDraft::tcp(from, to, 0) };
        send(engine, host, &draft, &vec![0; *len], now);
    }
    arrivals.extend(look(engine, now + 5 * SECOND));
    arrivals
}

fn play(engine: &mut EmulationEngine, script: &[Sent]) -> Vec<Arrival> {
    play_with(engine, script, collect)
}

/// Advances the engine to one event at a time.
fn step_by_step(engine: &mut EmulationEngine, until: Nanos) -> Vec<Arrival> {
    let mut arrivals = vec![];
    while let Some(due) = engine.next_due().filter(|due| *due <= until) {
        arrivals.extend(collect(engine, due));
    }
    arrivals
}

fn script() -> impl Strategy<Value = Vec<Sent>> {
    let sent = (0u64..8 * MS, any::<bool>(), 1u8..12, 100u16..1460, 1usize..60_000);
    proptest::collection::vec(sent, 1..60)
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn every_segment_is_delivered_consumed_or_dropped(seed: u64, script in script()) {
        let mut engine = EmulationEngine::new(&everything(seed), 0);
        let arrivals = play(&mut engine, &script);
        let truth = engine.truth(10 * SECOND);
        let totals = truth.totals;
        prop_assert_eq!(totals.in_flight_packets(), 0);
        prop_assert_eq!(engine.packets_held(), 0);
        let sum = totals.delivered.bytes + totals.consumed.bytes + totals.dropped.bytes;
        prop_assert_eq!(sum, totals.accepted.bytes + totals.generated.bytes);
        let links = truth.routes[0].hops.iter().flat_map(|hop| [hop.forward, hop.reverse]);
        let drops: u64 = links.clone().map(|link| link.drops.total()).sum();
        prop_assert_eq!(drops, totals.dropped.packets);
        for link in links {
            let lost = link.drops.total() - link.drops.ttl;
            prop_assert_eq!(link.entered.packets, link.left.packets + lost);
        }
        for arrival in arrivals {
            if arrival.ip()[9] == 6 {
                segments(&arrival);
            } else {
                icmp(&arrival);
            }
        }
    }

    #[test]
    fn the_same_seed_and_input_give_the_same_output(seed: u64, script in script()) {
        let once = play(&mut EmulationEngine::new(&everything(seed), 0), &script);
        let again = play(&mut EmulationEngine::new(&everything(seed), 0), &script);
        prop_assert!(once == again);
    }

    #[test]
    fn looking_late_changes_nothing(seed: u64, script in script()) {
        let late = play(&mut EmulationEngine::new(&everything(seed), 0), &script);
        let on_time = play_with(&mut EmulationEngine::new(&everything(seed), 0), &script, step_by_step);
        prop_assert!(late == on_time);
    }
}
