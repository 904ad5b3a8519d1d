//! One cause is injected, everything else stays: it must come first.

use super::super::change_evidence::{HostRole, RouteChangeBaseRate};
use super::super::event_test_builder::{DAY, EvidenceBuilder, HOUR, build_goodput_drop};
use super::{causes, explained};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::HostInterface;

const ROUTE: [&str; 5] = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1", "10.9.0.1"];
const OTHER: [&str; 5] = ["10.1.0.1", "10.6.0.1", "10.7.0.1", "10.4.0.1", "10.9.0.1"];

/// The quantities that are measured every hour, and their change at the event.
#[derive(Clone, Copy)]
struct World {
    route: [&'static str; 5],
    rtt_us: f64,
    capacity: f64,
    available: f64,
    limiter: Limiter,
    rmem_most: u64,
    mtu: u32,
}

const STEADY: World = World {
    route: ROUTE,
    rtt_us: 150_000.0,
    capacity: 622e6,
    available: 400e6,
    limiter: Limiter::PathCapacity,
    rmem_most: 32 << 20,
    mtu: 9000,
};

/// Two days before and one after, one set of readings an hour.
fn world(after: World) -> EvidenceBuilder {
    let mut sketch = build_goodput_drop();
    for hours in -48..24 {
        let now = if hours < 0 { STEADY } else { after };
        let at = hours * HOUR + HOUR / 2;
        sketch.trace(at, &now.route).rtt(at, now.rtt_us).estimate(
            at,
            now.capacity,
            now.available,
            None,
        );
        sketch.run(at, |report| {
            report.analysis.limited_by = now.limiter;
            report.observation.ends.sender.host.kernel = String::from("6.1.0");
            let host = &mut report.observation.ends.receiver.host;
            host.kernel = String::from("6.1.0");
            host.tcp_rmem_bytes = Some([4096, 131_072, now.rmem_most]);
            host.interface = Some(HostInterface {
                name: String::from("eth0"),
                mtu_bytes: Some(now.mtu),
                speed_bps: Some(1_000_000_000),
            });
        });
    }
    sketch
}

fn first(rows: &[(&str, World)]) {
    for (cause, after) in rows {
        let found = causes(&world(*after));
        assert_eq!(found.first().map(String::as_str), Some(*cause), "{found:?}");
    }
}

/// The limiter, and the bandwidth that is left over.
fn but(limiter: Limiter, available: f64) -> World {
    World { available, limiter, ..STEADY }
}

#[test]
fn of_faults_of_the_path_the_right_one_comes_first() {
    let full = Limiter::PathCapacity;
    first(&[
        ("capacity_change", World { capacity: 160e6, ..but(full, 155e6) }),
        ("shaper_appeared", but(Limiter::Shaper, 400e6)),
        ("policer_appeared", but(Limiter::Policer, 400e6)),
        ("random_loss", but(Limiter::Loss, 400e6)),
        ("route_change", World { route: OTHER, ..STEADY }),
        ("route_change", World { route: OTHER, rtt_us: 165_000.0, ..but(full, 160e6) }),
        ("route_change", World { route: OTHER, capacity: 160e6, ..but(full, 155e6) }),
        ("cross_traffic", but(full, 155e6)),
        ("rtt_step", World { rtt_us: 250_000.0, ..STEADY }),
    ]);
}

#[test]
fn of_faults_of_hosts_and_settings_the_right_one_comes_first() {
    let window = but(Limiter::ReceiveWindow, 400e6);
    first(&[
        ("host_setting", World { rmem_most: 3 << 20, ..window }),
        ("interface", World { mtu: 1500, ..but(Limiter::CpuReceiver, 400e6) }),
        ("interface", World { mtu: 1400, ..STEADY }),
        ("retune", but(Limiter::ReceiveWindow, 600e6)),
    ]);
}

#[test]
fn without_any_change_no_cause_is_found_and_what_stayed_is_said() {
    let explained = explained(&world(STEADY));
    assert_eq!(explained.causes, []);
    let told = explained.unchanged.join("\n");
    for word in ["forward route", "min RTT", "hosts", "capacity", "available", "limits"] {
        assert!(told.contains(word), "{word} in {told}");
    }
}

#[test]
fn only_what_changed_is_named() {
    let flip = causes(&world(World { route: OTHER, ..STEADY }));
    assert_eq!(flip, ["route_change"]);
    let sysctl = World { rmem_most: 3 << 20, limiter: Limiter::ReceiveWindow, ..STEADY };
    assert_eq!(causes(&world(sysctl)), ["host_setting"]);
}

#[test]
fn changes_of_another_day_are_not_blamed() {
    let mut sketch = build_goodput_drop();
    for hours in -96..24 {
        let at = hours * HOUR + HOUR / 2;
        let early = hours < -48;
        sketch.trace(at, if early { &OTHER } else { &ROUTE });
        sketch.rtt(at, if early { 120_000.0 } else { 150_000.0 });
        sketch.estimate(at, if early { 1e9 } else { 622e6 }, 400e6, None);
        sketch.run(at, |report| {
            report.analysis.limited_by = Limiter::PathCapacity;
            report.plan.streams = if early { 16 } else { 8 };
            let host = &mut report.observation.ends.receiver.host;
            host.kernel = String::from(if early { "6.1.0" } else { "6.12.0" });
            host.tcp_rmem_bytes = Some([4096, 131_072, if early { 32 << 20 } else { 3 << 20 }]);
        });
    }
    assert!(causes(&sketch).is_empty(), "{:?}", causes(&sketch));
}

#[test]
fn what_contradicts_is_never_named() {
    // A wider link, a shorter way and larger buffers do not lower a rate.
    let mut sketch =
        world(World { capacity: 2.4e9, rtt_us: 80_000.0, rmem_most: 256 << 20, ..STEADY });
    assert!(causes(&sketch).is_empty(), "{:?}", causes(&sketch));
    // A sender's receive buffer has no part in what it sends.
    for (at, most) in [(-HOUR, "4096 131072 33554432"), (HOUR, "4096 131072 1048576")] {
        sketch.audit(at, HostRole::Sender, &[("net.ipv4.tcp_rmem", most)]);
    }
    assert!(causes(&sketch).is_empty(), "{:?}", causes(&sketch));
}

#[test]
fn audits_alone_show_a_setting_too() {
    let mut sketch = build_goodput_drop();
    for (at, most) in [(-6 * HOUR, "4096\t131072\t33554432"), (6 * HOUR, "4096\t131072\t1048576")] {
        sketch.audit(
            at,
            HostRole::Receiver,
            &[("net.ipv4.tcp_rmem", most), ("softnet.processed", "17")],
        );
    }
    assert_eq!(causes(&sketch), ["host_setting"]);
}

#[test]
fn routes_that_often_change_without_effect_say_so() {
    let mut sketch = world(World { route: OTHER, ..STEADY });
    sketch.base_rate = Some(RouteChangeBaseRate { route_changes: 21, with_effect: 1 });
    let explained = explained(&sketch);
    let route = &explained.causes[0];
    assert!(
        route.summary.contains("of 21 changes of route in 30 days on this path, 20 had no effect")
    );
    assert!(route.contradicts.iter().any(|line| line.contains("no other effect")));
}

#[test]
fn a_change_of_the_way_back_is_named_as_such() {
    let mut sketch = build_goodput_drop();
    sketch.trace(-HOUR, &ROUTE).trace(HOUR, &ROUTE);
    sketch.trace_back(-HOUR, &ROUTE).trace_back(HOUR, &OTHER);
    let explained = explained(&sketch);
    assert_eq!(explained.causes[0].cause, "route_change");
    assert!(
        explained.causes[0].summary.contains("from cesnet to slac"),
        "{}",
        explained.causes[0].summary
    );
    assert!(explained.unchanged.iter().any(|line| line.starts_with("the forward route")));
    assert!(explained.causes[0].confidence_ratio < 0.7);
}

#[test]
fn a_trace_days_apart_says_less() {
    let mut sketch = build_goodput_drop();
    sketch.trace(-5 * DAY, &ROUTE).trace(HOUR, &OTHER);
    assert!(causes(&sketch).is_empty());
}
