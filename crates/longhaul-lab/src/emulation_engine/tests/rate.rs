//! Tests of rate, delay, queue and order.

use super::bench::*;
use super::wire::segments;
use crate::emulation_engine::{EmulationEngine, LabHost, Nanos};
use crate::path_spec::LinkSpec;
use longhaul_model::units::Rate;
use std::time::Duration;

#[test]
fn a_packet_takes_exactly_its_delay() {
    let hops = vec![
        hop("r1", delay(10), delay(7)),
        hop("r2", delay(20), delay(3)),
        hop("far", delay(30), delay(1)),
    ];
    let mut engine = EmulationEngine::new(&path(hops), 0);
    send(&mut engine, LabHost::Near, &udp(), &[7; 100], 5);
    assert_eq!(engine.next_due(), Some(60 * MS + 5));
    let arrivals = collect(&mut engine, SECOND);
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].due, 60 * MS + 5);
    assert_eq!(arrivals[0].host, LabHost::Far);
    assert_eq!(engine.next_due(), None);
    assert_eq!(engine.packets_held(), 0);
}

#[test]
fn a_packet_is_on_the_wire_for_its_bytes_and_the_overhead() {
    // (payload, Mbit/s, nanoseconds for payload + 28 of headers + 38 of Ethernet)
    let table = [(1472, 1000, 12_304), (1472, 100, 123_040), (22, 10, 70_400), (1472, 6250, 1968)];
    for (payload, mbps, expected) in table {
        let mut engine = EmulationEngine::new(&one_link(rate(mbps)), 0);
        send(&mut engine, LabHost::Near, &udp(), &vec![0; payload], 0);
        assert_eq!(collect(&mut engine, SECOND)[0].due, expected, "{payload} at {mbps}");
    }
}

/// Keeps a link of `mbps` busy with super-packets for two seconds, advancing by `step`; returns the
/// wire bytes and the time at which the last of them was sent.
fn saturate(mbps: u64, step: Nanos) -> (u64, Nanos) {
    let spec = rate(mbps);
    let ideal = spec.rate.unwrap_or_default();
    let mut engine = EmulationEngine::new(&one_link(spec), 0);
    let payload = vec![1; 44 * 1448];
    let (mut offered, mut wire, mut last) = (0, 0, 0);
    for now in (0..2 * SECOND).step_by(step as usize) {
        while offered < ideal.bytes_in(Duration::from_nanos(now + 2 * step)) {
            send(&mut engine, LabHost::Near, &tcp(0), &payload, now);
            offered += 44 * SEGMENT_WIRE_BYTES;
        }
        for arrival in collect(&mut engine, now) {
            wire += segments(&arrival).len() as u64 * SEGMENT_WIRE_BYTES;
            last = arrival.due;
        }
    }
    (wire, last)
}

/// 1448 bytes of payload, 40 of headers, 38 of Ethernet.
const SEGMENT_WIRE_BYTES: u64 = 1526;

#[test]
fn a_busy_link_delivers_its_rate_to_a_millionth() {
    for (mbps, step_us) in [(10, 1000), (100, 700), (1000, 130), (6250, 97), (10_000, 300)] {
        let (wire, last) = saturate(mbps, step_us * 1000);
        let ideal = Rate::bits_per_second(mbps * 1_000_000).time_for(wire).unwrap_or_default();
        let error = last as f64 / ideal.as_nanos() as f64 - 1.0;
        assert!(error.abs() < 1e-6, "{mbps} Mbit/s: {error:e}");
    }
}

#[test]
fn a_slow_link_lets_segments_go_one_by_one_and_a_fast_one_together() {
    for (mbps, together, due) in [(100, 1, 122_080), (1000, 4, 4 * 12_208), (10_000, 22, 26_857)] {
        let mut engine = EmulationEngine::new(&one_link(rate(mbps)), 0);
        send(&mut engine, LabHost::Near, &tcp(0), &vec![0; 44 * 1448], 0);
        let arrivals = collect(&mut engine, SECOND);
        assert_eq!(segments(&arrivals[0]).len(), together, "{mbps} Mbit/s");
        assert_eq!(arrivals[0].due, due, "{mbps} Mbit/s");
    }
}

#[test]
fn a_full_queue_keeps_what_fits_of_a_super_packet() {
    // One segment is 1488 + 38 bytes on the wire. The first finds the wire idle; the queue holds
    // exactly ten.
    let spec = queue(rate(10), 10 * 1526);
    let mut engine = EmulationEngine::new(&one_link(spec), 0);
    send(&mut engine, LabHost::Near, &tcp(0), &vec![0; 44 * 1448], 0);
    send(&mut engine, LabHost::Near, &tcp(1), &vec![0; 1448], 0);
    let arrivals = collect(&mut engine, SECOND);
    assert_eq!(arrivals.len(), 10);
    let truth = engine.truth(SECOND);
    let link = &truth.routes[0].hops[0].forward;
    assert_eq!(link.drops.queue, 35);
    assert_eq!(link.queue_peak_bytes, 10 * 1526);
    assert_eq!(link.queue_bytes, 0);
    assert_eq!(truth.totals.in_flight_packets(), 0);
    assert_eq!(engine.packets_held(), 0);
}

#[test]
fn an_idle_wire_takes_a_packet_whatever_the_queue() {
    let mut engine = EmulationEngine::new(&one_link(queue(rate(10), 0)), 0);
    for k in 0..3 {
        send(&mut engine, LabHost::Near, &udp(), &[0; 1000], k * 10 * MS);
        assert_eq!(collect(&mut engine, (k + 1) * 10 * MS).len(), 1);
    }
    send(&mut engine, LabHost::Near, &udp(), &[0; 1000], SECOND);
    send(&mut engine, LabHost::Near, &udp(), &[0; 1000], SECOND);
    assert_eq!(collect(&mut engine, 2 * SECOND).len(), 1);
}

#[test]
fn links_in_series_pass_segments_on_one_by_one() {
    // Twice 1 Gbit/s: the second link sends segment k while the first sends segment k + 1, so the
    // total is one segment time longer than on one link.
    let hops = vec![hop("r1", rate(1000), delay(0)), hop("far", rate(1000), delay(0))];
    let mut engine = EmulationEngine::new(&path(hops), 0);
    send(&mut engine, LabHost::Near, &tcp(0), &vec![0; 44 * 1448], 0);
    let last = collect(&mut engine, SECOND).last().map(|arrival| arrival.due);
    assert_eq!(last, Some(45 * 12_208));
}

#[test]
fn a_fast_link_behind_a_slow_one_needs_no_queue() {
    // The fast link has sent each packet before the slow one releases the next.
    let fast = queue(rate(1000), 2000);
    let hops = vec![hop("r1", rate(900), delay(0)), hop("far", fast, delay(0))];
    let mut engine = EmulationEngine::new(&path(hops), 0);
    for k in 0..100 {
        send(&mut engine, LabHost::Near, &tcp(k), &vec![0; 44 * 1448], u64::from(k) * 100_000);
    }
    collect(&mut engine, SECOND);
    let truth = engine.truth(SECOND);
    assert_eq!(truth.totals.delivered.packets, 4400);
}

#[test]
fn jitter_varies_the_delay_within_its_width_and_keeps_order() {
    let spec = LinkSpec { jitter: Duration::from_millis(3), ..delay(10) };
    let mut engine = EmulationEngine::new(&one_link(spec), 0);
    for k in 0..2000 {
        send(&mut engine, LabHost::Near, &tcp(k), &[0; 100], u64::from(k) * MS / 4);
    }
    let arrivals = collect(&mut engine, 2 * SECOND);
    let order: Vec<u32> = arrivals.iter().map(|it| segments(it)[0].sequence).collect();
    assert_eq!(order, (0..2000).collect::<Vec<_>>());
    let delays: Vec<Nanos> = arrivals.iter().zip(0..).map(|(it, k)| it.due - k * MS / 4).collect();
    assert!(delays.iter().all(|delay| (7 * MS..=13 * MS).contains(delay)));
    assert!(delays.iter().any(|delay| *delay > 11 * MS));
}

#[test]
fn many_rated_links_behind_a_narrow_one_only_add_their_own_time() {
    // The narrow link is in the middle of 43. The result must match the formula for a train of
    // equal packets: each link adds one packet's time, the narrow one spaces them.
    let hops = (0..43).map(|k| {
        let link = if k == 20 { rate(100) } else { rate(1000) };
        hop(&format!("r{k}"), LinkSpec { delay: Duration::from_millis(1), ..link }, delay(1))
    });
    let mut engine = EmulationEngine::new(&path(hops.collect()), 0);
    for k in 0..100 {
        send(&mut engine, LabHost::Near, &tcp(k), &[0; 1448], 0);
    }
    let arrivals = collect(&mut engine, SECOND);
    let first = 43 * MS + 42 * 12_208 + 122_080;
    for (k, arrival) in (0..).zip(&arrivals) {
        assert!(arrival.due.abs_diff(first + k * 122_080) <= 43, "packet {k}: {}", arrival.due);
    }
    let truth = engine.truth(SECOND);
    assert_eq!(truth.routes[0].hops[42].forward.left.packets, 100);
    assert_eq!(truth.routes[0].hops[42].forward.capacity, rate(1000).rate);
}
