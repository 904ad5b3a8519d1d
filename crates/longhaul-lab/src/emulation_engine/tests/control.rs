//! Tests of loss, reordering, policer, shaper and cross traffic.

use super::bench::*;
use super::wire::segments;
use crate::emulation_engine::{EmulationEngine, LabHost, Nanos};
use crate::path_spec::{CrossPattern, CrossSpec, LinkSpec, PolicerSpec, ReorderSpec, ShaperSpec};
use longhaul_model::units::{Bytes, Rate};
use std::time::Duration;

/// The wire bytes of a UDP packet with 1472 bytes of payload.
const WIRE_BYTES: u64 = 1538;

fn mbps(value: u64) -> Rate {
    Rate::bits_per_second(value * 1_000_000)
}

/// Sends full-size UDP packets at `offered` for `span`; returns their arrival times.
fn stream(engine: &mut EmulationEngine, offered: Rate, span: Nanos) -> Vec<Nanos> {
    let gap = offered.time_for(WIRE_BYTES).unwrap_or_default().as_nanos() as usize;
    let mut arrivals = vec![];
    for now in (0..span).step_by(gap) {
        send(engine, LabHost::Near, &udp(), &[0; 1472], now);
        arrivals.extend(collect(engine, now).iter().map(|it| it.due));
    }
    arrivals.extend(collect(engine, span + SECOND).iter().map(|it| it.due));
    arrivals
}

/// Returns the wire rate of the packets that arrived between two times.
fn rate_between(arrivals: &[Nanos], from: Nanos, to: Nanos) -> f64 {
    let count = arrivals.iter().filter(|due| (from..to).contains(*due)).count();
    count as f64 * WIRE_BYTES as f64 * 8e9 / (to - from) as f64
}

#[test]
fn random_loss_has_its_share_for_any_seed() {
    for (seed, loss) in [(1, 0.01), (2, 0.0005), (3, 0.3), (4, 1.0)] {
        let mut spec = one_link(LinkSpec { loss, ..delay(1) });
        spec.seed = seed;
        let mut engine = EmulationEngine::new(&spec, 0);
        for k in 0..2000 {
            send(&mut engine, LabHost::Near, &tcp(0), &vec![0; 44 * 1448], k * MS);
            collect(&mut engine, k * MS);
        }
        collect(&mut engine, 10 * SECOND);
        let n = 88_000.0;
        let lost = engine.truth(10 * SECOND).routes[0].hops[0].forward.drops.loss as f64;
        let deviation = (n * loss * (1.0 - loss)).sqrt();
        assert!((lost - n * loss).abs() <= 4.0 * deviation, "{loss}: {lost} of {n}");
        assert_eq!(engine.packets_held(), 0);
    }
}

#[test]
fn reordering_lets_a_share_come_late_by_its_time() {
    let reorder = Some(ReorderSpec { share: 0.05, late_by: Duration::from_millis(7) });
    let mut engine = EmulationEngine::new(&one_link(LinkSpec { reorder, ..delay(10) }), 0);
    for k in 0..10_000 {
        send(&mut engine, LabHost::Near, &tcp(k), &[0; 100], u64::from(k) * MS);
    }
    let arrivals = collect(&mut engine, 20 * SECOND);
    let delays = arrivals.iter().map(|it| it.due - u64::from(segments(it)[0].sequence) * MS);
    let late = delays.clone().filter(|delay| *delay == 17 * MS).count();
    assert_eq!(delays.filter(|delay| *delay == 10 * MS).count() + late, 10_000);
    assert!((412..588).contains(&late), "{late}");
}

#[test]
fn a_policer_passes_its_burst_and_then_its_rate() {
    let policer = Some(PolicerSpec { rate: mbps(50), burst: Bytes(100 * WIRE_BYTES) });
    let mut engine = EmulationEngine::new(&one_link(LinkSpec { policer, ..delay(0) }), 0);
    let arrivals = stream(&mut engine, mbps(200), 4 * SECOND);
    // Nothing is dropped during the burst: 100 packets plus those earned meanwhile.
    let gap = 61_520;
    let unbroken = arrivals.windows(2).take_while(|pair| pair[1] - pair[0] == gap).count() + 1;
    assert!(unbroken.abs_diff(133) <= 1, "{unbroken}");
    let rate = rate_between(&arrivals, SECOND, 4 * SECOND);
    assert!((rate / 50e6 - 1.0).abs() < 1e-3, "{rate}");
    let truth = engine.truth(5 * SECOND);
    let policed = truth.routes[0].hops[0].forward.drops.policer;
    assert_eq!(policed + arrivals.len() as u64, truth.totals.accepted.packets);
}

#[test]
fn a_shaper_has_a_peak_a_sustained_rate_and_a_burst() {
    let burst = Bytes(4_000_000);
    let shaper = Some(ShaperSpec { peak: mbps(135), sustained: mbps(67), burst });
    let spec = queue(LinkSpec { shaper, ..delay(5) }, 3_000_000);
    let mut engine = EmulationEngine::new(&one_link(spec), 0);
    let arrivals = stream(&mut engine, mbps(200), 4 * SECOND);
    // 4 MB drain at 135 - 67 Mbit/s: the peak lasts 470.6 ms.
    let peak = rate_between(&arrivals, 5 * MS, 475 * MS);
    assert!((peak / 135e6 - 1.0).abs() < 1e-3, "{peak}");
    let sustained = rate_between(&arrivals, 480 * MS, 4 * SECOND);
    assert!((sustained / 67e6 - 1.0).abs() < 1e-3, "{sustained}");
    let link = &engine.truth(6 * SECOND).routes[0].hops[0].forward;
    assert!(link.drops.shaper > 0);
    assert_eq!(link.drops.queue, 0);
    assert!(link.queue_peak_bytes <= 3_000_000 && link.queue_peak_bytes > 2_990_000);
    assert_eq!(link.sustained, Some(mbps(67)));
}

#[test]
fn a_shaper_that_has_rested_gives_its_burst_again() {
    let shaper = Some(ShaperSpec { peak: mbps(100), sustained: mbps(10), burst: Bytes(153_800) });
    let mut engine = EmulationEngine::new(&one_link(LinkSpec { shaper, ..delay(0) }), 0);
    for start in [0, 10 * SECOND] {
        for _ in 0..150 {
            send(&mut engine, LabHost::Near, &udp(), &[0; 1472], start);
        }
        let arrivals: Vec<Nanos> =
            collect(&mut engine, start + 9 * SECOND).iter().map(|it| it.due - start).collect();
        // 100 packets of credit, and a tenth more earned while they are sent.
        assert!(arrivals[110].abs_diff(111 * 123_040) < 200_000, "{}", arrivals[110]);
        let gap = arrivals[140] - arrivals[139];
        assert!(gap.abs_diff(1_230_400) <= 1, "{gap}");
    }
}

fn with_cross(pattern: CrossPattern, rate: u64) -> LinkSpec {
    let cross = Some(CrossSpec { rate: mbps(rate), pattern });
    queue(LinkSpec { cross, ..super::bench::rate(1000) }, 300_000)
}

#[test]
fn cross_traffic_leaves_the_exact_rest() {
    // Real packets arrive faster than the remaining rate; drops hit both kinds, so cross traffic
    // keeps its share of arrivals.
    let mut engine = EmulationEngine::new(&one_link(with_cross(CrossPattern::Cbr, 600)), 0);
    let arrivals = stream(&mut engine, mbps(390), 3 * SECOND);
    let got = rate_between(&arrivals, SECOND, 3 * SECOND);
    assert!((got / 390e6 - 1.0).abs() < 1e-3, "below the rest nothing is lost: {got}");
    let link = engine.truth(4 * SECOND).routes[0].hops[0].forward;
    assert_eq!(link.drops.queue, 0);
    let cross = link.cross.unwrap_or_default();
    let expected = 600e6 / 8.0 * 4.0;
    assert!((cross.offered_bytes as f64 / expected - 1.0).abs() < 3e-3, "{cross:?}");
    assert_eq!(cross.dropped_bytes, 0);
    assert!(cross.offered_bytes - cross.carried_bytes <= 2 * WIRE_BYTES);
}

#[test]
fn a_link_full_of_cross_and_real_traffic_carries_exactly_its_rate() {
    for pattern in [CrossPattern::Cbr, CrossPattern::Poisson] {
        let mut spec = one_link(with_cross(pattern, 600));
        // Two constant rates lock in phase; with this seed each loses its share.
        spec.seed = 2;
        let mut engine = EmulationEngine::new(&spec, 0);
        let arrivals = stream(&mut engine, mbps(800), 2 * SECOND);
        let before = arrivals.iter().filter(|due| **due < 2 * SECOND).count() as u64 * WIRE_BYTES;
        let mut engine = EmulationEngine::new(&spec, 0);
        for now in (0..2 * SECOND).step_by(15_380) {
            send(&mut engine, LabHost::Near, &udp(), &[0; 1472], now);
            collect(&mut engine, now);
        }
        let link = engine.truth(2 * SECOND).routes[0].hops[0].forward;
        let cross = link.cross.unwrap_or_default();
        let carried = (before + cross.carried_bytes) as f64 * 8.0;
        assert!((carried / 2e9 - 1.0).abs() < 1e-3, "{pattern:?}: {carried}");
        assert!(link.queue_peak_bytes <= 300_000);
        assert!(link.drops.queue > 0 && cross.dropped_bytes > 0);
    }
}

#[test]
fn cross_patterns_offer_their_mean_rate() {
    for (pattern, tolerance) in
        [(CrossPattern::Cbr, 1e-3), (CrossPattern::Poisson, 0.01), (CrossPattern::OnOff, 0.3)]
    {
        let mut engine = EmulationEngine::new(&one_link(with_cross(pattern, 300)), 0);
        assert!(collect(&mut engine, 20 * SECOND).is_empty());
        let link = engine.truth(20 * SECOND).routes[0].hops[0].forward;
        let offered = link.cross.unwrap_or_default().offered_bytes as f64;
        let expected = 300e6 / 8.0 * 20.0;
        assert!((offered / expected - 1.0).abs() < tolerance, "{pattern:?}: {offered}");
    }
}

#[test]
fn a_tcp_of_others_yields_to_real_traffic_and_comes_back() {
    let mut engine = EmulationEngine::new(&one_link(with_cross(CrossPattern::Tcp, 900)), 0);
    let carried = |engine: &EmulationEngine, at: Nanos| {
        let link = engine.truth(at).routes[0].hops[0].forward;
        link.cross.unwrap_or_default().carried_bytes as f64 * 8.0
    };
    collect(&mut engine, SECOND);
    let alone = carried(&engine, SECOND);
    assert!((alone / 0.9e9 - 1.0).abs() < 0.02, "{alone}");
    for now in (SECOND..3 * SECOND).step_by(12_304) {
        send(&mut engine, LabHost::Near, &udp(), &[0; 1472], now);
        collect(&mut engine, now);
    }
    let contended = carried(&engine, 3 * SECOND) - alone;
    assert!(contended < 0.5 * 1.8e9, "{contended}");
    collect(&mut engine, 10 * SECOND);
    let before = carried(&engine, 10 * SECOND);
    collect(&mut engine, 11 * SECOND);
    let again = carried(&engine, 11 * SECOND) - before;
    assert!((again / 0.9e9 - 1.0).abs() < 0.05, "{again}");
}
