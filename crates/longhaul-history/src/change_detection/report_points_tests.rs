//! Reports give the points that they hold, and no others.

use super::*;
use crate::path_test_builder;
use longhaul_model::report::v1::analysis::{Limiter, RunTotals, ThroughputAnalysis};
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::observation::{
    BothEnds as Hosts, EndObservation, ThroughputObservation,
};
use longhaul_model::report::v1::path::PathRtt;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::{
    ParentRun, Report, ReportFinding, ReportKind, RunParty, SCHEMA, ThroughputReport, available,
    load,
};

const BEGIN: &str = "2026-11-22T02:00:00.25Z";

fn report<P, O, A>(kind: ReportKind, plan: P, observation: O, analysis: A) -> Report<P, O, A> {
    let party = |host: &str| RunParty { host: host.to_owned(), ..RunParty::default() };
    Report {
        schema: SCHEMA.to_owned(),
        kind,
        run: RunInfo {
            id: String::from("01"),
            started_at: BEGIN.to_owned(),
            duration_us: 0,
            longhaul: String::new(),
            initiator: party("near"),
            responder: party("far"),
            part_of: None,
            environment: None,
        },
        plan,
        observation,
        analysis,
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}

fn analysis(goodput_bps: Option<u64>, totals: RunTotals) -> ThroughputAnalysis {
    ThroughputAnalysis {
        version: 1,
        goodput_bps,
        goodput_interval_bps: None,
        mean_goodput_bps: None,
        steady: None,
        ramp_us: None,
        rtt_us: None,
        limited_by: Limiter::Unknown,
        confidence_ratio: 0.0,
        shares: Vec::new(),
        bounds: Vec::new(),
        next_limit: None,
        totals,
        streams: Vec::new(),
        reverse: None,
    }
}

fn throughput_report(direction: RunDirection, analysis: ThroughputAnalysis) -> ThroughputReport {
    let plan = ThroughputPlan { direction, ..ThroughputPlan::default() };
    let observation = ThroughputObservation {
        forward: direction != RunDirection::Reverse,
        elapsed_us: 0,
        idle_rtt_us: None,
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams: Vec::new(),
        ends: Hosts { sender: EndObservation::default(), receiver: EndObservation::default() },
        reverse: None,
    };
    report(ReportKind::Throughput, plan, observation, analysis)
}

/// `from>to quantity value` of each point.
fn words(placed: &[ReportPoint]) -> Vec<String> {
    let word = |(pair, quantity, point): &ReportPoint| {
        let (from, to) = (&pair.from, &pair.to);
        format!("{from}>{to} {} {}", quantity.word(), point.value)
    };
    placed.iter().map(word).collect()
}

fn of(report: &AnyReport) -> Vec<String> {
    words(&extract_points(report, None, None))
}

#[test]
fn a_transfer_both_ways_gives_goodput_and_retransmits_of_each_way() {
    let counted = RunTotals {
        data_segments_sent: Some(1000),
        retransmitted_segments: Some(5),
        ..RunTotals::default()
    };
    let mut both = analysis(Some(300_000_000), counted);
    both.reverse = Some(Box::new(analysis(Some(200_000_000), RunTotals::default())));
    let report = throughput_report(RunDirection::Both, both);
    let any = AnyReport::Throughput(Box::new(report));
    let expected =
        ["near>far goodput 300000000", "near>far retransmits 0.005", "far>near goodput 200000000"];
    assert_eq!(of(&any), expected);
    let named = extract_points(&any, Some("slac"), Some("cesnet"));
    assert_eq!(named[0].0.from, "slac");
    assert_eq!(named[2].0.from, "cesnet");
    assert_eq!(named[0].2.at_us, 1_795_312_800_250_000);
}

#[test]
fn a_reverse_transfer_belongs_to_the_other_pair_and_a_failed_one_to_none() {
    let reverse = throughput_report(RunDirection::Reverse, analysis(Some(7), RunTotals::default()));
    let any = AnyReport::Throughput(Box::new(reverse));
    assert_eq!(of(&any), ["far>near goodput 7"]);
    for nothing in [None, Some(0)] {
        let failed =
            throughput_report(RunDirection::Forward, analysis(nothing, RunTotals::default()));
        assert!(of(&AnyReport::Throughput(Box::new(failed))).is_empty());
    }
}

#[test]
fn parts_of_a_scan_and_runs_without_a_time_give_nothing() {
    let whole = throughput_report(RunDirection::Forward, analysis(Some(7), RunTotals::default()));
    let mut part = whole.clone();
    part.run.part_of = Some(ParentRun { id: String::from("00"), index: 3 });
    let mut timeless = whole;
    timeless.run.started_at = String::from("yesterday");
    for report in [part, timeless] {
        assert!(of(&AnyReport::Throughput(Box::new(report))).is_empty());
    }
}

#[test]
fn available_bandwidth_counts_where_the_estimate_stands() {
    let estimate = |verdict, capacity_bps, available_bps| AvailableEstimate {
        verdict,
        capacity_bps,
        available_bps,
        ..AvailableEstimate::default()
    };
    let plan = available::AvailablePlan {
        mode: available::AvailableMode::Quick,
        forward: true,
        reverse: true,
        packet_bytes: 1500,
        most_bytes: 0,
        most_time_us: 0,
        seed: 0,
        dscp: None,
        uncooperative: None,
        shaper_time_us: None,
    };
    let found = available::AvailableAnalysis {
        version: 1,
        forward: Some(estimate(EstimateVerdict::Estimated, Some(100), Some(0))),
        reverse: Some(estimate(EstimateVerdict::SenderLimited, Some(900), None)),
    };
    let seen = available::AvailableObservation::default();
    let any = AnyReport::Available(Box::new(report(ReportKind::Available, plan, seen, found)));
    // Nothing left over is a value; the least that a capacity can be is none.
    assert_eq!(of(&any), ["near>far available 0", "near>far capacity 100"]);
}

#[test]
fn a_path_gives_round_trips_loss_and_hops_as_far_as_it_was_seen() {
    let rtt = |answered: u32| PathRtt {
        sent: 10,
        answered,
        min_ns: 172_500_000,
        avg_ns: 173_000_000,
        max_ns: 180_000_000,
        stddev_ns: 1,
        median_ns: 173_000_000,
        p95_ns: Some(179_000_000),
        loss_ratio: f64::from(10 - answered) / 10.0,
        loss_interval_ratio: [0.0, 1.0],
        duplicates: 0,
        reordered: 0,
    };
    let mut path = path_test_builder::build_report(
        BEGIN,
        path_test_builder::build_route(&["192.0.2.2", "", "198.51.100.1"]),
    );
    path.analysis.rtt = Some(rtt(9));
    path.analysis.rtt_reverse = Some(rtt(0));
    let mut astray = path_test_builder::build_route(&["192.0.2.2", ""]);
    astray.reached = false;
    path.observation.route_reverse = Some(astray);
    let expected = [
        "near>far rtt_floor 172500",
        "near>far rtt_median 173000",
        "near>far rtt_p95 179000",
        "near>far loss 0.1",
        "near>far hops 3",
    ];
    assert_eq!(of(&AnyReport::Path(Box::new(path))), expected);
}

#[test]
fn a_load_gives_what_its_idle_stretches_say() {
    let plan = load::LoadPlan {
        forward: true,
        steps: Vec::new(),
        probe_interval_us: 1,
        probe_bytes: 64,
        idle_us: 1,
        load_us: 1,
        responsiveness: None,
    };
    let idle = load::ProbeDelays {
        probes: 100,
        rtt_min_ns: 20_000_000,
        rtt_median_ns: 21_000_000,
        rtt_p95_ns: 22_000_000,
        rtt_max_ns: 23_000_000,
        loss_ratio: 0.0,
        loss_interval_ratio: [0.0, 0.04],
        forward_variation_ns: None,
        reverse_variation_ns: None,
    };
    let found =
        load::LoadAnalysis { version: 1, idle: Some(idle), ..load::LoadAnalysis::default() };
    let seen = load::LoadObservation::default();
    let any = AnyReport::Load(Box::new(report(ReportKind::Load, plan, seen, found)));
    assert_eq!(of(&any), ["near>far rtt_floor 20000", "near>far loss 0"]);
}

fn flows_report() -> FlowsReport {
    serde_json::from_str(include_str!("../../../../fixtures/reports/flows-rclone.json"))
        .expect("a report")
}

#[test]
fn a_transfer_gives_its_rate_and_the_share_of_the_hosts() {
    let mut report = flows_report();
    let bps = report.analysis.transfers[0].run.goodput_bps.expect("a rate") as f64;
    let expected = [
        format!("near/rclone>10.77.0.2 goodput {bps}"),
        "near/rclone>10.77.0.2 retransmits 0".to_owned(),
        "near/rclone>10.77.0.2 host_share 0.9406449650852736".to_owned(),
    ];
    assert_eq!(of(&AnyReport::Flows(Box::new(report.clone()))), expected);
    // A second process of that name shares the series; the other direction does not.
    for sends in [true, false] {
        let mut other = report.observation.transfers[0].clone();
        other.sends = sends;
        report.observation.transfers.push(other);
        report.analysis.transfers.push(report.analysis.transfers[0].clone());
    }
    let words = of(&AnyReport::Flows(Box::new(report)));
    assert_eq!(words[0], format!("near/rclone>10.77.0.2 goodput {}", 2.0 * bps));
    assert_eq!(words[3], format!("10.77.0.2>near/rclone goodput {bps}"));
    assert_eq!(words.len(), 6);
}

#[test]
fn names_of_programs_are_bounded_in_number_and_length_and_are_no_hosts() {
    let mut report = flows_report();
    for index in 0..100 {
        let mut other = report.observation.transfers[0].clone();
        let process = other.process.as_mut().expect("a process");
        process.name = format!("a/b\n\u{202e}{index}{}", "x".repeat(9_000));
        report.observation.transfers.push(other);
        report.analysis.transfers.push(report.analysis.transfers[0].clone());
    }
    let found = extract_points(&AnyReport::Flows(Box::new(report)), Some("near"), None);
    let pairs: std::collections::BTreeSet<_> = found.iter().map(|(pair, ..)| pair).collect();
    assert_eq!(pairs.len(), transfer_points::MAX_SERIES_TRANSFERS);
    for pair in pairs {
        let named = TransferIdentity::of_pair(pair).expect("a transfer");
        assert_eq!((named.host, named.peer, named.sends), ("near", "10.77.0.2", true));
        assert!(named.program.chars().count() <= 32, "{pair:?}");
        assert!(!pair.from.chars().any(char::is_control));
        assert_eq!(named.to_pair(), *pair);
    }
}

#[test]
fn the_transfer_of_a_series_is_a_run_with_its_own_findings() {
    let mut report = flows_report();
    report.findings.insert(0, ReportFinding::new("of another", 1.0, ""));
    report.analysis.transfers[0].finding_index = vec![1];
    let pair = HostPair { from: "near/rclone".to_owned(), to: "10.77.0.2".to_owned() };
    let run = transfer_points::extract_transfer(&report, &pair).expect("the transfer");
    assert_eq!(run.analysis, report.analysis.transfers[0].run);
    assert_eq!(run.findings, [report.findings[1].clone()]);
    let other = HostPair { from: "near/scp".to_owned(), ..pair };
    assert_eq!(transfer_points::extract_transfer(&report, &other), None);
}
