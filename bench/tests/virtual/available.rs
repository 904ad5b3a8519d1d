//! What ABwE saw on SLAC's paths, seen by `longhaul available`: a capacity, a shaper, a load that
//! falls, and a link that is replaced. Also a bed of `cargo xtask bench available`.

use crate::deadlines::LoopbackServer;
use crate::lab_report::{assert_near, lab_report, number, read_report};
use longhaul_bench::available_matrix::check_bed;
use serde_json::Value;

crate::virtual_tests!(
    the_capacity_to_sdsc_lies_within_its_interval,
    the_shaper_to_lyon_is_found_with_its_three_parameters,
    a_change_of_load_is_told_from_one_of_capacity,
    a_light_run_keeps_to_its_budget_and_invents_nothing_on_loopback,
    paced_tcp_by_iperf3s_protocol_finds_what_other_traffic_leaves,
    a_policer_behind_a_link_three_times_as_fast_is_found,
    a_bucket_of_usual_size_does_not_hide_the_rate_behind_it,
    an_idle_path_is_free_although_the_clocks_of_its_host_are_late,
);

/// The forward estimate on a shipped path that begins at a time of its events.
fn estimate(path: &str, begin_at: &str) -> Value {
    let lab = [path, "--begin-at", begin_at];
    lab_report(&lab, &["available", "far", "--forward"])["analysis"]["forward"].take()
}

/// IP rate of a link, for full packets.
fn ip(wire_bps: f64, overhead: f64) -> f64 {
    wire_bps * 1500.0 / (1500.0 + overhead)
}

fn the_capacity_to_sdsc_lies_within_its_interval() {
    let found = estimate("slac-sdsc", "0 s");
    let truth = ip(130e6, 38.0);
    assert_near("capacity", number(&found["capacity_bps"]), truth, 0.03);
    let interval = &found["capacity_interval_bps"];
    assert!(interval[0].as_f64() <= Some(1.02 * truth), "{found:#}");
    assert!(interval[1].as_f64() >= Some(0.98 * truth), "{found:#}");
}

fn the_shaper_to_lyon_is_found_with_its_three_parameters() {
    let found = estimate("slac-in2p3", "61 s");
    let bucket = &found["bucket"];
    assert_eq!(bucket["kind"], "shaper", "{found:#}");
    let (rate, top) = (ip(67e6, 196.0), ip(135e6, 196.0));
    assert_near("sustained", number(&bucket["sustained_bps"]), rate, 0.03);
    // The peak stands for three packets only, and the first of them finds the shaper idle, so it
    // reads high; the burst, a hundred cells of 53 bytes, is known to a packet.
    assert_near("peak", number(&bucket["peak_bps"]), top, 0.25);
    let (burst, truth) = (number(&bucket["burst_bytes"]), ip(5300.0, 196.0));
    assert!((burst - truth).abs() <= 1500.0, "burst: {burst}, {truth}");
}

fn a_change_of_load_is_told_from_one_of_capacity() {
    let [morning, evening, upgraded] = ["0 s", "61 s", "121 s"].map(|at| {
        let found = estimate("slac-upgrade", at);
        ["capacity_bps", "available_bps"].map(|key| number(&found[key]))
    });
    let t3 = 33e6;
    assert_near("morning", morning[0], t3, 0.15);
    assert_near("evening", evening[0], t3, 0.15);
    // The load is 27, then 9 Mbit/s: errors as shares of the capacity.
    for (when, available, truth) in [("morning", morning[1], 6e6), ("evening", evening[1], 24e6)] {
        let off = (available - truth).abs() / t3;
        assert!(off <= 0.15, "{when}: {available} bit/s, truly {truth}");
    }
    assert!(upgraded[0] > 3.0 * t3, "the OC-3: {} bit/s", upgraded[0]);
}

/// The available bandwidth lies in the interval, and the estimate says that it is one of one end.
fn paced_tcp_by_iperf3s_protocol_finds_what_other_traffic_leaves() {
    for (begin_at, truth) in [("0 s", 6e6), ("61 s", 24e6)] {
        let lab = ["slac-upgrade", "--begin-at", begin_at];
        let report = lab_report(&lab, &["available", "far", "--forward", "--iperf3"]);
        let found = &report["analysis"]["forward"];
        assert_eq!(found["verdict"], "estimated", "{found:#}");
        let off = (number(&found["available_bps"]) - truth).abs() / 33e6;
        let seen = &report["observation"]["forward"];
        assert!(off <= 0.2, "{truth}: {found:#}\n{seen:#}\n{:#}", report["caveats"]);
        assert_eq!(found["flags"][0], "uncooperative");
        assert!(found["capacity_bps"].is_null(), "{found:#}");
    }
}

/// Nothing queues on loopback, so no estimate of what is free there can be right.
fn a_light_run_keeps_to_its_budget_and_invents_nothing_on_loopback() {
    let server = LoopbackServer::start();
    let port = server.port.to_string();
    let report = read_report(&["available", "127.0.0.1", "-p", &port, "--light"]);
    for direction in ["forward", "reverse"] {
        let found = &report["analysis"][direction];
        assert_ne!(found["verdict"], "estimated", "{found:#}");
        assert!(found["available_bps"].is_null(), "{found:#}");
    }
}

fn a_bucket_of_usual_size_does_not_hide_the_rate_behind_it() {
    check_bed_of_seed_one("bucket, idle", 1);
}

/// A policer of 14.7 Mbit/s with a bucket of 53 kB, which was read as 48.5 Mbit/s.
fn a_policer_behind_a_link_three_times_as_fast_is_found() {
    check_bed_of_seed_one("policer", 1);
}

/// In the bed of seed 3, the host's own time for a packet was taken for the capacity (247 of 58 Mbit/s).
fn an_idle_path_is_free_although_the_clocks_of_its_host_are_late() {
    check_bed_of_seed_one("idle one-core host", 0);
    check_bed_of_seed(3, "idle one-core host", 2);
}

fn check_bed_of_seed_one(kind: &str, number: usize) {
    check_bed_of_seed(1, kind, number);
}

fn check_bed_of_seed(seed: u64, kind: &str, number: usize) {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    check_bed(&longhaul, kind, seed, number).expect("the estimate is right");
}
