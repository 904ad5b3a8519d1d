//! What SLAC found with pipechar and traceroute, found by `longhaul path`: the narrow link, and
//! routes whose routers are silent, labelled, side by side, or lie. Needs root.

use crate::lab_report::{explain, lab_report};
use longhaul_bench::path_matrix::check_cell;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

crate::virtual_tests!(
    the_queue_to_sdsc_grows_at_the_last_hop,
    the_queue_to_daresbury_grows_at_the_circuit_in_the_middle,
    a_route_of_43_hops_is_traced_in_bounded_time_with_its_silent_ones_marked,
    routers_side_by_side_are_all_found_and_labels_are_shown,
    answers_that_lie_are_thrown_away_and_the_rest_of_the_route_stands,
    options_that_a_middlebox_takes_away_are_named,
    the_two_families_of_a_name_have_routes_of_their_own,
    a_queue_is_found_on_the_last_link_and_none_beside_a_policer,
    the_hop_that_refuses_large_packets_leaves_the_path_its_mtu,
);

/// Returns the report of `longhaul path` on a shipped path that is changed by `sets`.
fn look(path: &str, sets: &[&str], options: &[&str]) -> Value {
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let lab: Vec<&str> = [path].into_iter().chain(sets).collect();
    lab_report(&lab, &[&["path", "far", "--no-mtu"], options].concat())
}

fn hops(report: &Value) -> &[Value] {
    let hops = report["observation"]["route"]["hops"].as_array();
    hops.unwrap_or_else(|| panic!("no route: {:#}", report["observation"]["missing"]))
}

fn addresses(hop: &Value) -> BTreeSet<&str> {
    let answers = hop["answers"].as_array().into_iter().flatten();
    answers.filter_map(|answer| answer["address"].as_str()).collect()
}

/// The link before `hop` must be the narrow one.
fn assert_narrow_before(report: &Value, hop: u64) {
    let link = &report["analysis"]["narrow_link"];
    assert_eq!(link["verdict"], "link", "{}", explain(report));
    assert_eq!(link["before_ttl"].as_u64(), Some(hop), "{}", explain(report));
}

fn the_queue_to_sdsc_grows_at_the_last_hop() {
    let report = look("slac-sdsc", &[], &["--load=6s", "--no-reverse"]);
    assert_narrow_before(&report, 6);
}

fn the_queue_to_daresbury_grows_at_the_circuit_in_the_middle() {
    // The far host's small window would never fill a queue; several streams do.
    let report = look("slac-daresbury", &[], &["--load=8s", "-P", "8", "--no-reverse"]);
    assert_narrow_before(&report, DARESBURY_CIRCUIT);
}

/// The hop behind the circuit of 10 Mbit/s, see the path file.
const DARESBURY_CIRCUIT: u64 = 4;

fn a_route_of_43_hops_is_traced_in_bounded_time_with_its_silent_ones_marked() {
    let began = Instant::now();
    let report = look("sanjose-lulea", &[], &["-c", "3", "--no-reverse"]);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let hops = hops(&report);
    assert_eq!(hops.len(), 43);
    assert_eq!(report["observation"]["route"]["reached"], true);
    let silent = hops.iter().filter(|hop| addresses(hop).is_empty()).count();
    assert!(silent > 0, "some routers of that path say nothing");
    for (hop, ttl) in hops.iter().zip(1..43) {
        let own = format!("10.77.1.{ttl}");
        assert!(addresses(hop).iter().all(|it| *it == own), "{hop:#}");
    }
    let links = report["analysis"]["hops"].as_array().expect("delays of hops");
    let negative = |hop: &&Value| hop["link_ns"].as_i64().is_some_and(|ns| ns < 0);
    assert!(!links.iter().any(|hop| negative(&hop)), "{}", explain(&report));
}

fn routers_side_by_side_are_all_found_and_labels_are_shown() {
    let sets = ["hops.3.balance=4", "hops.4.mpls=[16001, 24]"];
    let report = look("slac-sdsc", &sets, &["--alternatives=0.99", "--no-reverse", "-c", "3"]);
    let hops = hops(&report);
    let expected = ["10.77.1.3", "10.78.1.3", "10.79.1.3", "10.80.1.3"];
    assert_eq!(addresses(&hops[2]), BTreeSet::from(expected), "{:#}", hops[2]);
    let labels = hops[3]["answers"][0]["mpls"].as_array().into_iter().flatten();
    let labels: Vec<u64> = labels.filter_map(|label| label["label"].as_u64()).collect();
    assert_eq!(labels, [16_001, 24]);
}

fn answers_that_lie_are_thrown_away_and_the_rest_of_the_route_stands() {
    let sets = ["hops.2.icmp=garbage", "hops.4.icmp=forged"];
    let report = look("slac-sdsc", &sets, &["-c", "3", "--no-reverse"]);
    let route = &report["observation"]["route"];
    assert_eq!(route["reached"], true, "{route:#}");
    for (hop, ttl) in hops(&report).iter().zip(1..6) {
        // Of garbage, what still fits the probe may be believed; of forgeries nothing does.
        let own = format!("10.77.1.{ttl}");
        assert!(addresses(hop).iter().all(|it| *it == own), "{hop:#}");
        assert!(ttl == 2 || addresses(hop).is_empty() == (ttl == 4), "{hop:#}");
    }
    assert!(route["discarded"].as_u64() > Some(0), "{route:#}");
}

fn options_that_a_middlebox_takes_away_are_named() {
    let sets = ["hops.3.strip=[\"sack\", \"timestamps\"]"];
    let report = look("slac-sdsc", &sets, &["--options", "--no-route", "-c", "3"]);
    let options = &report["observation"]["options"];
    for end in ["here", "there"] {
        assert_eq!(options[end]["sack"], false, "{options:#}");
        assert_eq!(options[end]["timestamps"], false, "{options:#}");
    }
    let causes = report["findings"].as_array().into_iter().flatten();
    let named = causes.into_iter().any(|finding| finding["cause"] == "options_stripped");
    assert!(named, "{}", explain(&report));
}

/// Both routes are the first ones of their paths; neither is a change of the other.
fn the_two_families_of_a_name_have_routes_of_their_own() {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let script = "cd $(mktemp -d) && export LONGHAUL_ARCHIVE=$PWD/archive.sqlite3 && \
                  for family in -4 -6; do \
                      $0 path far $family --no-mtu --no-reverse -c 1 --json --quiet || exit; \
                  done";
    let mut command = std::process::Command::new(&longhaul);
    command.args(["lab", "run", "slac-sdsc", "--", "sh", "-c", script]).arg(&longhaul);
    let limit = Duration::from_secs(200);
    let text = xtask::program_runner::capture_stdout(&mut command, limit).expect("two reports");
    let reports: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 2, "{text}");
    for report in &reports {
        assert_eq!(report["run"]["environment"], "lab:slac-sdsc");
        assert_eq!(report["analysis"]["route_number"], 1, "{}", explain(report));
        assert!(report["analysis"]["route_change"].is_null(), "{}", explain(report));
    }
    let [v4, v6] = [0, 1].map(|index| &reports[index]["run"]["responder"]["address"]);
    assert_ne!(v4, v6);
}

/// Cells of seed 1 of the bench of paths.
fn a_queue_is_found_on_the_last_link_and_none_beside_a_policer() {
    check_path_cell("narrow last link", 2);
    check_path_cell("policer under load", 0);
}

fn the_hop_that_refuses_large_packets_leaves_the_path_its_mtu() {
    check_path_cell("route and path MTU", 0);
}

pub fn check_path_cell(kind: &str, number: usize) {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    check_cell(&longhaul, kind, 1, number).expect("the path is judged rightly");
}
