//! Marks, classes and rules, on figures of the seeds.

use super::*;
use crate::speed_record::{CapturedPayload, ContestRule, RecordStop, RuleKind, RuleVerdict};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::capture::PayloadVariety;
use proptest::prelude::*;

fn stop(city: &str, (latitude, longitude): (f64, f64)) -> RecordStop {
    RecordStop { city: city.to_owned(), latitude, longitude, point: "airport".to_owned() }
}

/// Two of the legs of the record of February 2004, with its bytes and seconds.
fn seen() -> RecordObservation {
    RecordObservation {
        throughput_run: "20040222T000000Z-000001".to_owned(),
        path_run: Some("20040222T000000Z-000002".to_owned()),
        started_at: "2004-02-22T00:00:00Z".to_owned(),
        initiator: RunParty::default(),
        responder: RunParty::default(),
        forward: true,
        transport: "tcp".to_owned(),
        ip_version: Some(4),
        streams: 9,
        received_bytes: 498_606_500_000,
        elapsed_us: 638_740_000,
        same_host: false,
        same_boot: Some(false),
        payload: None,
        rtt_min_ns: Some(172_000_000),
        rtt_by: None,
        stops: vec![
            stop("Los Angeles", (33.9425, -118.4081)),
            stop("Chicago", (41.9786, -87.9048)),
            stop("Geneva", (46.2381, 6.1090)),
        ],
        answered_hops: Some(1),
    }
}

fn history() -> MarkHistory {
    let mark = |date: &str, class: &str, mark: f64| PastMark {
        date: date.to_owned(),
        team: "a team".to_owned(),
        classes: vec![class.to_owned()],
        mark_bit_m_per_s: mark,
        rate: None,
        distance: None,
        source: "a page".to_owned(),
        confidence: "read".to_owned(),
    };
    MarkHistory {
        version: 1,
        marks: vec![
            mark("2003", "ipv4_multiple_streams", 23_888e12),
            mark("2002", "ipv4_multiple_streams", 9_891e12),
            mark("2006", "ipv4_single_stream", 264_147e12),
        ],
    }
}

fn rules(kinds: &[(RuleKind, f64)]) -> RuleSet {
    let rule = |(check, value): &(RuleKind, f64)| ContestRule {
        clause: None,
        text: "a rule".to_owned(),
        check: *check,
        value: Some(*value),
        source: "a page".to_owned(),
        confidence: "read".to_owned(),
    };
    RuleSet {
        name: "some".to_owned(),
        version: 1,
        title: String::new(),
        standing: String::new(),
        rules: kinds.iter().map(rule).collect(),
    }
}

fn concluded(seen: &RecordObservation, kinds: &[(RuleKind, f64)]) -> RecordAnalysis {
    conclude_record(seen, &rules(kinds), &history())
}

fn verdict(seen: &RecordObservation, kind: RuleKind, value: f64) -> RuleVerdict {
    concluded(seen, &[(kind, value)]).checks[0].verdict
}

#[test]
fn the_mark_is_bytes_by_metres_over_seconds_and_its_class_the_best_of_the_past() {
    let found = concluded(&seen(), &[]);
    assert_eq!(found.class.as_deref(), Some("ipv4_multiple_streams"));
    let metres = found.distance_mm.expect("a distance") as f64 / 1e3;
    assert!((metres - 9_862e3).abs() < 30e3, "{metres}");
    let expected = 498_606_500_000.0 * 8.0 * metres / 638.74;
    let mark = found.mark_bit_m_per_s.expect("a mark");
    assert!((mark / expected - 1.0).abs() < 1e-12, "{mark} {expected}");
    assert_eq!(found.goodput_bps, 6_244_875_849);
    let beside = found.beside.expect("a mark of the class");
    assert_eq!(beside.name, "a team, 2003");
    assert!((beside.gain_ratio - (mark / 23_888e12 - 1.0)).abs() < 1e-12);
}

#[test]
fn a_distance_that_light_cannot_do_is_impossible() {
    let light = |ms: u64| {
        let mut seen = seen();
        seen.rtt_min_ns = Some(ms * 1_000_000);
        concluded(&seen, &[]).light.expect("both are known")
    };
    assert!(light(172).possible && (light(172).stretch_ratio - 1.78).abs() < 0.01);
    assert!(!light(96).possible);
}

#[test]
fn rules_hold_fail_or_cannot_be_told() {
    use RuleVerdict::{CannotTell, Fails, Holds};
    let own = seen();
    assert_eq!(verdict(&own, RuleKind::Gain, 0.1), Holds);
    assert_eq!(verdict(&own, RuleKind::Gain, 5.0), Fails);
    assert_eq!(verdict(&own, RuleKind::LeastTime, 600.0), Holds);
    assert_eq!(verdict(&own, RuleKind::LeastTime, 639.0), Fails);
    assert_eq!(verdict(&own, RuleKind::LeastHops, 2.0), Fails);
    assert_eq!(verdict(&own, RuleKind::MostCreditedDistance, 3e7), Holds);
    assert_eq!(verdict(&own, RuleKind::MostCreditedDistance, 9e6), Fails);
    assert_eq!(verdict(&own, RuleKind::Declare, 0.0), RuleVerdict::Declare);
    let cities = verdict(&own, RuleKind::DistanceByCities, 0.0);
    assert_eq!(cities, RuleVerdict::Declare);
    let mut less = own.clone();
    less.answered_hops = None;
    less.same_host = true;
    assert_eq!(verdict(&less, RuleKind::DistanceByCities, 0.0), CannotTell);
    assert_eq!(verdict(&less, RuleKind::LeastHops, 2.0), CannotTell);
    assert_eq!(verdict(&less, RuleKind::TwoHosts, 0.0), Fails);
    assert_eq!(verdict(&own, RuleKind::TwoHosts, 0.0), Holds);
    (less.same_host, less.same_boot) = (false, None);
    assert_eq!(verdict(&less, RuleKind::TwoHosts, 0.0), CannotTell);
    less.transport = "udp".to_owned();
    less.stops.clear();
    let found = concluded(&less, &[(RuleKind::Class, 0.0), (RuleKind::Tcp, 0.0)]);
    assert_eq!(found.mark_bit_m_per_s, None);
    assert_eq!(found.distance_mm, None);
    assert!(found.checks.iter().all(|it| it.verdict == Fails));
    assert_eq!(verdict(&less, RuleKind::LeastDistance, 1e5), CannotTell);
}

#[test]
fn varied_payload_is_what_a_capture_shows_and_nothing_else() {
    let captured = |distinct_packets, most_repeated_packets| CapturedPayload {
        captured_by: "responder".to_owned(),
        variety: PayloadVariety {
            packets: 100,
            compared_bytes: 64,
            distinct_packets,
            most_repeated_packets,
        },
    };
    let judged = |payload| {
        let seen = RecordObservation { payload, ..seen() };
        let found = concluded(&seen, &[(RuleKind::VariedPayload, 0.0)]);
        (found.checks[0].verdict, found.checks[0].text.clone())
    };
    let (verdict, text) = judged(Some(captured(93, 2)));
    assert_eq!(verdict, RuleVerdict::Holds);
    assert!(text.contains("93 different") && text.contains("2 times"), "{text}");
    assert_eq!(judged(Some(captured(1, 100))).0, RuleVerdict::Fails);
    assert_eq!(judged(None).0, RuleVerdict::CannotTell);
}

#[test]
fn a_quarter_of_a_meridian_is_a_ten_millionth_by_design() {
    let (equator, pole) = ((0.0, 0.0), (90.0, 0.0));
    let quarter = geodesic_metres(equator, pole);
    assert!((quarter - 10_001_965.729).abs() < 0.001, "{quarter}");
    let sphere = compute_sphere_distance(equator, pole);
    assert!((sphere / quarter - 1.0).abs() < 0.006, "{sphere}");
}

proptest! {
    #[test]
    fn the_mark_is_always_the_distance_by_the_goodput(
        bytes in 1u64..1 << 50, us in 1u64..1 << 42, mm in 1u64..1 << 36,
    ) {
        let goodput = bytes as f64 * 8e6 / us as f64;
        let product = goodput * mm as f64 / 1e3;
        let mark = compute_mark(bytes, us, mm).expect("time passed");
        prop_assert!((mark / product - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_figures_can_break_a_conclusion(
        bytes: u64, us: u64, rtt: Option<u64>, streams: u32, latitude in -1e9..1e9f64, longitude: f64,
    ) {
        let mut seen = seen();
        (seen.received_bytes, seen.elapsed_us, seen.streams) = (bytes, us, streams);
        seen.rtt_min_ns = rtt;
        seen.stops[1].latitude = latitude;
        seen.stops[1].longitude = longitude;
        let found = concluded(&seen, &[(RuleKind::Gain, 0.1), (RuleKind::LeastTime, 1.0)]);
        prop_assert_eq!(found.checks.len(), 2);
    }
}
