//! SLAC, 11 June 2003: routes to Europe moved from Internet2 to ESnet at 15:45 PDT. The figures are
//! those of the page; addresses stand for the routers.

use super::super::change_evidence::{OtherPathChange, RouteChangeBaseRate, UnchangedPath};
use super::super::event_test_builder::{
    EvidenceBuilder, HOUR, MINUTE, build_bucket, build_goodput_drop, build_level_step, build_pair,
};
use super::super::{
    EventExplanation, FollowUpKind, build_operator_report, explain_event, plan_follow_ups,
};
use super::{causes, explained};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::TokenBucketKind;
use longhaul_model::report::v1::quantity::PathQuantity;

/// A route by the numbers of its routers: a network each.
fn hops(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|n| format!("10.{n}.0.1")).collect()
}

fn trace(sketch: &mut EvidenceBuilder, at: i64, numbers: &[u8]) {
    let hops = hops(numbers);
    let refs: Vec<&str> = hops.iter().map(String::as_str).collect();
    sketch.trace(at, &refs);
}

/// 17 hops by Internet2, 13 by ESnet; hops 3-11 became 3-7, the last six are the same.
const CESNET_OLD: [u8; 17] = [1, 2, 33, 34, 35, 36, 37, 38, 39, 40, 41, 91, 92, 93, 94, 95, 96];
const CESNET_NEW: [u8; 13] = [1, 2, 53, 54, 55, 56, 57, 91, 92, 93, 94, 95, 96];
/// 17 and 15 hops; the first two and the last two are the same.
const IN2P3_OLD: [u8; 17] = [1, 2, 33, 34, 35, 36, 37, 38, 39, 40, 41, 61, 62, 63, 64, 81, 82];
const IN2P3_NEW: [u8; 15] = [1, 2, 53, 54, 55, 71, 72, 73, 74, 75, 76, 77, 78, 81, 82];
/// By GEANT in New York, as it was meant.
const IN2P3_MENDED: [u8; 13] = [1, 2, 53, 54, 55, 56, 57, 61, 62, 63, 64, 81, 82];

/// 8 streams of 1 MiB, every hour and a half.
fn cesnet(quantity: PathQuantity, before: f64, after: f64) -> EvidenceBuilder {
    let mut sketch = build_level_step(quantity, before, after);
    for n in -16..8 {
        let (at, old) = (n * 90 * MINUTE + 45 * MINUTE, n < 0);
        trace(&mut sketch, at, if old { &CESNET_OLD } else { &CESNET_NEW });
        sketch.rtt(at, 160_000.0);
        sketch.estimate(at, 622e6, if old { 200e6 } else { 280e6 }, None);
        sketch.run(at, |report| {
            report.plan.streams = 8;
            report.plan.receive_buffer_bytes = Some(1 << 20);
            report.analysis.limited_by =
                if old { Limiter::PathCapacity } else { Limiter::ReceiveWindow };
        });
    }
    sketch.base_rate = Some(RouteChangeBaseRate { route_changes: 9, with_effect: 1 });
    sketch
}

fn in2p3() -> EvidenceBuilder {
    let mut sketch = build_level_step(PathQuantity::Goodput, 125e6, 60e6);
    sketch.set_pair("slac", "in2p3");
    for n in -16..8 {
        let (at, old) = (n * 90 * MINUTE + 45 * MINUTE, n < 0);
        trace(&mut sketch, at, if old { &IN2P3_OLD } else { &IN2P3_NEW });
        sketch.echoes(at, if old { 150_000 } else { 160_000 });
        sketch.run_limited(at, if old { Limiter::PathCapacity } else { Limiter::Shaper });
        let shaper = build_bucket(TokenBucketKind::Shaper, 135_000_000, 67_000_000);
        let (capacity, available) = if old { (155e6, 130e6) } else { (135e6, 66e6) };
        sketch.estimate(at, capacity, available, (!old).then_some(shaper));
    }
    sketch
}

/// Ten hours after it broke.
fn in2p3_mended() -> EvidenceBuilder {
    let mut sketch = build_level_step(PathQuantity::Goodput, 60e6, 124e6);
    sketch.set_pair("slac", "in2p3");
    for n in -8..8 {
        let (at, old) = (n * HOUR + HOUR / 2, n < 0);
        trace(&mut sketch, at, if old { &IN2P3_NEW } else { &IN2P3_MENDED });
        let shaper = build_bucket(TokenBucketKind::Shaper, 135_000_000, 67_000_000);
        sketch.estimate(at, 135e6, if old { 66e6 } else { 130e6 }, old.then_some(shaper));
    }
    let mut broke = in2p3().event();
    broke.id = String::from("broke");
    broke.between_us = broke.between_us.map(|us| us - 20 * HOUR);
    broke.causes = explained(&in2p3()).causes;
    sketch.earlier.push(broke);
    sketch
}

fn supports(explained: &EventExplanation, cause: &str) -> String {
    let found = explained.causes.iter().find(|finding| finding.cause == cause);
    found.map_or_else(String::new, |finding| finding.supports.join("\n"))
}

#[test]
fn cesnet_has_another_route_and_a_setting_that_no_longer_fits() {
    let sketch = cesnet(PathQuantity::Goodput, 250e6, 150e6);
    let explained = explained(&sketch);
    let words: Vec<&str> = explained.causes.iter().map(|f| f.cause.as_str()).collect();
    assert_eq!(words, ["route_change", "retune"]);
    let route = &explained.causes[0];
    assert!(route.confidence_ratio >= 0.75, "{}", route.confidence_ratio);
    for part in [
        "hops 3-11 replaced by hops 3-7",
        "17 hops before, 13 after",
        "of 9 changes of route in 30 days on this path, 8 had no effect",
    ] {
        assert!(route.summary.contains(part), "{part} in {}", route.summary);
    }
    let retune = &explained.causes[1];
    assert!(retune.summary.contains("from 250 Mbit/s to 150 Mbit/s while available bandwidth rose from 200 Mbit/s to 280 Mbit/s"), "{}", retune.summary);
    let command = format!("longhaul tune {}", sketch.event().pair.to);
    assert!(retune.advice.iter().any(|a| a.command.as_ref() == Some(&command)));
    assert!(explained.unchanged.iter().any(|line| line == "min RTT: 160 ms before, 160 ms after"));
    let (event, evidence) = (sketch.event(), sketch.evidence());
    let wanted: Vec<FollowUpKind> =
        plan_follow_ups(&event, &explained, &evidence).iter().map(|w| w.measurement).collect();
    assert!(wanted.contains(&FollowUpKind::Tune), "{wanted:?}");
}

#[test]
fn what_is_available_to_cesnet_rose_by_the_route() {
    assert_eq!(causes(&cesnet(PathQuantity::Available, 200e6, 280e6))[0], "route_change");
}

#[test]
fn in2p3_has_another_route_with_a_shaper_on_it() {
    let sketch = in2p3();
    let explained = explained(&sketch);
    let words: Vec<&str> = explained.causes.iter().map(|f| f.cause.as_str()).collect();
    assert_eq!(words, ["route_change", "shaper_appeared"]);
    let told = supports(&explained, "route_change");
    assert!(told.contains("on the new route there is a shaper: peak 135 Mbit/s, sustained 67 Mbit/s, burst 100 KiB"), "{told}");
    assert!(told.contains("the RTT rose at the same time, from 150 ms to 160 ms"), "{told}");
    assert!(
        explained.causes[0].summary.contains("hops 3-15 replaced by hops 3-13"),
        "{}",
        explained.causes[0].summary
    );
    let (event, evidence) = (sketch.event(), sketch.evidence());
    let wanted = plan_follow_ups(&event, &explained, &evidence);
    assert!(
        !wanted
            .iter()
            .any(|w| matches!(w.measurement, FollowUpKind::AvailableShaper | FollowUpKind::Tune)),
        "{wanted:?}"
    );
}

#[test]
fn in2p3_recovers_when_the_route_is_corrected() {
    let explained = explained(&in2p3_mended());
    let words: Vec<&str> = explained.causes.iter().map(|f| f.cause.as_str()).collect();
    assert_eq!(words, ["recovery", "route_change", "shaper_gone"]);
    let told = supports(&explained, "recovery");
    for part in [
        "its reported cause was route change",
        "the route changed with it",
        "the shaper is no longer detected",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn the_other_paths_of_slac_acquit_slac_itself() {
    let (sketch, other) = (cesnet(PathQuantity::Goodput, 250e6, 150e6), in2p3().event());
    let (uk, nl, it) = (
        build_pair("slac", "dl.uk"),
        build_pair("slac", "nikhef.nl"),
        build_pair("slac", "infn.it"),
    );
    let event = sketch.event();
    let mut evidence = sketch.evidence();
    evidence.other_path_changes = vec![OtherPathChange { event: &other, route: None }];
    evidence.unchanged_paths =
        [&uk, &nl, &it].into_iter().map(|pair| UnchangedPath { pair, route: None }).collect();
    let explained = explain_event(&event, &evidence);
    assert_eq!(explained.causes[0].cause, "route_change");
    let scope = explained.scope.expect("other paths are known");
    assert!(scope.contains("slac - in2p3") || scope.contains("in2p3 - slac"), "{scope}");
    assert!(scope.contains("3 other paths of it did not change"), "{scope}");
}

#[test]
fn the_text_for_the_operator_has_all_parts() {
    let sketch = in2p3();
    let (event, evidence) = (sketch.event(), sketch.evidence());
    let text =
        build_operator_report(&event, &explain_event(&event, &evidence), &evidence).to_text();
    assert!(text.lines().all(|line| line.chars().count() <= 78), "{text}");
    for part in [
        "Throughput from slac to in2p3 fell on 2003-06-11",
        "from 125 Mbit/s to 60 Mbit/s (-52 %)",
        "between 2003-06-11 22:15 and 23:15 UTC",
        "Min RTT: 150 ms before, 160 ms after: longer.",
        "Likely cause: route change",
        "  *   3 10.33.0.1                          3 10.53.0.1",
        "     16 10.81.0.1                         14 10.81.0.1",
        "hops 3-15 replaced by hops 3-13",
        "What did not change",
        "16 bulk runs before, 8 bulk runs after the change",
        "16 traces before, 8 traces after the change",
        "What is asked",
        "whether this shaper is intended",
    ] {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat(&text).contains(&flat(part)), "{part} in\n{text}");
    }
}

#[test]
fn a_text_without_evidence_says_so() {
    let sketch = build_goodput_drop();
    let (event, evidence) = (sketch.event(), sketch.evidence());
    let text =
        build_operator_report(&event, &explain_event(&event, &evidence), &evidence).to_text();
    for part in [
        "No cause was found",
        "Not measured both before and after",
        "Only the values of the series",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
