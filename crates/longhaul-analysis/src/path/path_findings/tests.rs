use crate::RunConclusion;
use crate::path::path_test_builder::{
    build_echoes, build_link, build_plan, build_report, build_route, build_truncated_route,
};
use crate::path::{KnownRoute, conclude_path};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::TcpOptions;
use longhaul_model::report::v1::path::{
    MtuProbe, MtuSearch, ObservedRoute, PathAnalysis, PathObservation, PathPlan, PathTcpOptions,
    RouteChangeKind, TracePlan,
};

fn look(observation: &PathObservation) -> RunConclusion<PathAnalysis> {
    conclude_path(&build_plan(), observation, &[], None)
}

fn seen() -> PathObservation {
    PathObservation {
        address: String::from("198.51.100.1"),
        round_trips: Some(build_echoes(10, Some(172_000_000))),
        route: Some(build_route(&["10.1.0.1", "10.2.0.1", "198.51.100.1"])),
        ..PathObservation::default()
    }
}

fn causes(conclusion: &RunConclusion<PathAnalysis>) -> Vec<&str> {
    let findings = conclusion.findings.iter();
    findings.map(|finding| finding.cause.as_str()).collect()
}

fn codes(conclusion: &RunConclusion<PathAnalysis>) -> Vec<&str> {
    let caveats = conclusion.caveats.iter();
    caveats.map(|caveat| caveat.code.as_str()).collect()
}

fn only(conclusion: &RunConclusion<PathAnalysis>) -> &ReportFinding {
    assert_eq!(conclusion.findings.len(), 1, "{:?}", causes(conclusion));
    &conclusion.findings[0]
}

fn known(route: ObservedRoute) -> KnownRoute {
    let mut earlier = build_report("2003-06-11T20:00:00Z", route);
    earlier.analysis.route_number = Some(1);
    KnownRoute::of(&earlier).unwrap()
}

#[test]
fn a_path_without_trouble_has_no_findings() {
    let conclusion = look(&seen());
    assert_eq!(causes(&conclusion), [""; 0]);
    assert_eq!(codes(&conclusion), [""; 0]);
    assert_eq!(conclusion.analysis.route_number, Some(1));
    assert_eq!(conclusion.analysis.route_change, None);
    let rtt = conclusion.analysis.rtt.unwrap();
    assert_eq!(rtt.min_ns, 172_000_000);
}

#[test]
fn a_silent_far_end_is_named_with_the_last_hop_that_answers() {
    let conclusion = look(&PathObservation {
        round_trips: Some(build_echoes(10, None)),
        route: Some(build_truncated_route(&["10.1.0.1", "10.2.0.1", "", ""])),
        ..seen()
    });
    let found = only(&conclusion);
    assert_eq!(found.cause, "far_end_silent");
    assert_eq!(found.summary, "198.51.100.1 answered none of 10 icmp probes");
    assert_eq!(found.supports, ["the trace ends too: hop 2 (10.2.0.1) is the last to answer"]);
    let reached = look(&PathObservation { round_trips: Some(build_echoes(10, None)), ..seen() });
    assert!(only(&reached).confidence_ratio < found.confidence_ratio);
    assert_eq!(conclusion.analysis.rtt, None, "no number out of nothing");
}

fn options(offered: bool, in_force: bool, mss: u32) -> PathTcpOptions {
    let all = |on| TcpOptions {
        timestamps: on,
        sack: on,
        window_scaling: on,
        ecn: false,
        send_window_shift: None,
        receive_window_shift: None,
    };
    PathTcpOptions {
        here: Some(all(in_force)),
        there: Some(all(in_force)),
        mss_here_bytes: Some(mss),
        mss_there_bytes: Some(mss),
        offered_here: Some(all(true)),
        offered_there: Some(all(offered)),
    }
}

#[test]
fn stripped_options_are_told_only_where_both_hosts_offer_them() {
    let with = |options| look(&PathObservation { options: Some(options), ..seen() });
    let stripped = with(options(true, false, 1460));
    assert_eq!(causes(&stripped), ["options_stripped"]);
    let summary = &only(&stripped).summary;
    let names = "window scaling, selective acknowledgement, timestamps";
    assert!(summary.contains(names), "{summary}");
    assert_eq!(causes(&with(options(false, false, 1460))), [""; 0]);
    assert_eq!(causes(&with(options(true, true, 1460))), [""; 0]);
}

fn search(local_bytes: u32, probes: &[(u32, u32, Option<&str>)]) -> MtuSearch {
    let probe = |&(packet_bytes, arrived, by): &(u32, u32, Option<&str>)| MtuProbe {
        packet_bytes,
        sent: 3,
        arrived,
        refused_by: by.map(str::to_owned),
        refused_mtu_bytes: by.map(|_| 1500),
    };
    MtuSearch { local_bytes, probes: probes.iter().map(probe).collect() }
}

#[test]
fn large_packets_are_swallowed_refused_or_pass() {
    let with = |mtu, mss| {
        look(&PathObservation { mtu: Some(mtu), options: Some(options(true, true, mss)), ..seen() })
    };
    let swallowed = with(search(9000, &[(9000, 0, None), (1500, 3, None)]), 8948);
    assert_eq!(causes(&swallowed), ["mtu_black_hole", "mss_above_path_mtu"]);
    assert!(swallowed.findings[1].confidence_ratio > 0.8);
    let refused = [(9000, 0, Some("10.2.0.1")), (1500, 3, None)];
    let told = with(search(9000, &refused), 1448);
    assert_eq!(only(&told).cause, "mtu_below_interface");
    assert_eq!(only(&told).supports, ["reported by 10.2.0.1"]);
    let clamped = with(search(1500, &[(1500, 3, None)]), 1360);
    assert_eq!(only(&clamped).cause, "mss_clamped");
    let fine = with(search(9000, &[(9000, 3, None)]), 8948);
    assert_eq!(causes(&fine), [""; 0]);
}

#[test]
fn another_route_is_a_finding_and_silence_is_none() {
    let before = known(build_route(&["10.1.0.1", "10.9.0.1", "198.51.100.1"]));
    let conclusion = conclude_path(&build_plan(), &seen(), &[before], None);
    let change = conclusion.analysis.route_change.as_ref().unwrap();
    assert_eq!(change.kind, RouteChangeKind::OneHop);
    assert_eq!(change.other_number, Some(1));
    assert_eq!(change.other_run.as_deref(), Some("run-2003-06-11T20:00:00Z"));
    assert_eq!(conclusion.analysis.route_number, Some(2));
    let found = only(&conclusion);
    assert_eq!(found.summary, "The route changed at one hop: now route 2, before route 1");
    assert_eq!(found.supports[0], "hop 2 replaced by hop 2");
    let silent = known(build_route(&["10.1.0.1", "", "198.51.100.1"]));
    let conclusion = conclude_path(&build_plan(), &seen(), &[silent], None);
    assert_eq!(causes(&conclusion), [""; 0]);
    assert_eq!(conclusion.analysis.route_number, Some(1));
}

#[test]
fn the_step_of_the_round_trip_is_that_of_the_echoes() {
    let mut earlier = known(build_route(&["10.1.0.1", "10.9.0.1", "198.51.100.1"]));
    earlier.rtt_min_ns = Some(160_000_000);
    let conclusion = conclude_path(&build_plan(), &seen(), &[earlier], None);
    let change = conclusion.analysis.route_change.as_ref().unwrap();
    assert_eq!(change.rtt_step_ns, Some(12_000_000));
    let told = "the RTT is 12 ms longer than before";
    assert!(only(&conclusion).supports.contains(&told.to_owned()));
}

#[test]
fn an_end_that_was_reached_before_is_a_finding() {
    let before = known(build_route(&["10.1.0.1", "10.2.0.1", "198.51.100.1"]));
    let cut =
        PathObservation { route: Some(build_truncated_route(&["10.1.0.1", "", ""])), ..seen() };
    let conclusion = conclude_path(&build_plan(), &cut, &[before], None);
    let found = only(&conclusion);
    assert_eq!(found.cause, "end_not_reached");
    assert_eq!(found.contradicts, ["the destination answers 10 of 10 probes"]);
    assert_eq!(codes(&conclusion), ["silent_hops"]);
}

#[test]
fn alternatives_loops_and_rewriting_are_told() {
    let mut balanced = build_route(&["10.1.0.1", "10.2.0.1", "198.51.100.1"]);
    balanced.links =
        vec![build_link(1, "10.1.0.1", "10.2.0.1"), build_link(1, "10.1.0.1", "10.2.0.9")];
    balanced.confidence_ratio = Some(0.95);
    let mut looped = build_truncated_route(&["10.1.0.1", "10.2.0.1", "10.1.0.1", "10.2.0.1"]);
    looped.ended_by = String::from("loop");
    let mut translated = build_route(&["10.1.0.1", "10.2.0.1", "198.51.100.1"]);
    translated.hops[1].answers[0].rewritten = vec![String::from("source_address")];
    for (route, cause, summary) in [
        (balanced, "load_balanced", "Load balancing across next hops (ECMP): 2 after hop 1"),
        (looped, "route_loop", "Routing loop at hops 1-3: the same routers answer again"),
        (
            translated,
            "packets_rewritten",
            "A device before or at hop 2 rewrites packets: source address",
        ),
    ] {
        let conclusion = look(&PathObservation { route: Some(route), ..seen() });
        let found = only(&conclusion);
        assert_eq!((found.cause.as_str(), found.summary.as_str()), (cause, summary));
    }
}

#[test]
fn ways_that_differ_there_and_back_are_told_by_autonomous_system() {
    let with = |addresses: &[&str], systems: &[u32]| {
        let mut all = build_route(addresses);
        for (hop, system) in all.hops.iter_mut().zip(systems) {
            hop.answers[0].autonomous_system = Some(*system);
        }
        all
    };
    let conclusion = look(&PathObservation {
        route: Some(with(&["10.1.0.1", "10.2.0.1", "10.3.0.1"], &[3671, 293, 2200])),
        route_reverse: Some(with(&["10.3.0.2", "10.5.0.1", "10.1.0.2"], &[2200, 5511, 11537])),
        ..seen()
    });
    let found = only(&conclusion);
    assert_eq!(found.cause, "asymmetric_route");
    assert_eq!(
        found.summary,
        "Asymmetric routing: forward and reverse share 20 % of the autonomous systems"
    );
}

#[test]
fn what_could_not_be_seen_is_said() {
    let mut hidden = build_route(&["10.1.0.1", "", "10.3.0.1", "198.51.100.1"]);
    hidden.hops[2].answers[0].quoted_ttl = Some(3);
    hidden.hops[0].rate_limited = true;
    hidden.discarded = 4;
    let mut poor = build_echoes(4, Some(4_000_000));
    poor.clock = String::from("user");
    let observation = PathObservation { route: Some(hidden), round_trips: Some(poor), ..seen() };
    let asked = PathPlan {
        trace: Some(TracePlan { confidence_ratio: Some(0.95), ..build_plan().trace.unwrap() }),
        ..build_plan()
    };
    let conclusion = conclude_path(&asked, &observation, &[], None);
    assert_eq!(
        codes(&conclusion),
        [
            "silent_hops",
            "rate_limited",
            "tunnel",
            "alternatives_incomplete",
            "few_answers",
            "answers_discarded",
            "user_clock"
        ]
    );
}
