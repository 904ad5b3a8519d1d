//! Rates, counts and times of single runs over a path of 100 Mbit/s and 20 ms: what the tests on the
//! machine's own clock must not assert.

use crate::lab::{StandingLab, TUN};
use crate::lab_report::{assert_near, number, read_report};
use serde_json::Value;

crate::virtual_tests!(
    loads_keep_to_the_rates_that_were_requested,
    both_ends_of_a_run_with_iperf3_agree,
    iperf3_and_longhaul_as_its_peer_count_alike,
    a_run_ends_soon_after_its_time,
    a_run_without_an_end_ends_when_its_goodput_is_known,
    a_run_with_a_cap_in_bytes_ends_at_the_cap_or_when_its_goodput_is_known,
    a_requested_window_is_kept,
    a_capture_holds_every_delivered_byte,
    readers_and_writers_keep_to_the_rates_that_were_requested,
    datagrams_go_at_the_requested_rate_and_none_is_lost,
    datagrams_over_the_mtu_are_not_fragmented_on_request,
    samples_and_intervals_come_as_often_as_requested,
    a_requested_window_is_kept_on_the_wire_of_iperf3,
    the_connection_of_the_audit_reaches_the_window_it_requests,
);

/// Not the port of the `longhaul serve` that the lab starts.
const IPERF3_PORT: &str = "5202";

fn with_responder() -> StandingLab {
    let lab = StandingLab::up(TUN, &[]);
    lab.serve(&format!("{} serve", lab.program()));
    lab
}

fn near(lab: &StandingLab, words: &[&str]) -> Value {
    let longhaul = lab.program();
    let text = lab.near(&[&[longhaul.as_str()], words].concat());
    serde_json::from_str(&text).expect("JSON")
}

fn loads_keep_to_the_rates_that_were_requested() {
    let lab = with_responder();
    let words = ["load", "far", "-b", "20M,60M", "-t", "2s", "--idle", "1s", "--json", "--no-save"];
    let report = near(&lab, &words);
    let analysis = &report["analysis"];
    assert_near("idle, ns", number(&analysis["idle"]["rtt_median_ns"]), 20e6, 0.01);
    for (step, rate_bps) in [(0, 20e6), (1, 60e6)] {
        let goodput = number(&analysis["steps"][step]["goodput_bps"]);
        assert_near("goodput", goodput, rate_bps, 0.05);
    }
}

fn both_ends_of_a_run_with_iperf3_agree() {
    let lab = with_responder();
    lab.serve(&format!("iperf3 -s -p {IPERF3_PORT}"));
    let test = ["test", "far", "-p", IPERF3_PORT, "--iperf3", "--json", "--no-save", "-P", "2"];
    for direction in [&[][..], &["-R"]] {
        let words = [&test[..], &["-t", "2", "-b", "40M"], direction].concat();
        let report = near(&lab, &words);
        let totals = &report["analysis"]["totals"];
        let (sent, received) = (&totals["sender_bytes"], &totals["receiver_bytes"]);
        assert_near("received", number(received), number(sent), 0.02);
        // From this end alone, a sender at the other end cannot be judged.
        let limiter = if direction.is_empty() { "application" } else { "unknown" };
        assert_eq!(report["analysis"]["limited_by"], limiter, "{report:#}");
    }
    let report = near(&lab, &[&test[..], &["-n", "4M"]].concat());
    let received = report["analysis"]["totals"]["receiver_bytes"].as_u64();
    assert_eq!(received, Some(4 << 20));
}

fn iperf3_and_longhaul_as_its_peer_count_alike() {
    let lab = with_responder();
    for words in [&["-t", "1"][..], &["-n", "2M"], &["-t", "1", "-R"]] {
        let report = lab.iperf3(words);
        let bytes = |end: &str| number(&report["end"][end]["bytes"]);
        let (sent, received) = (bytes("sum_sent"), bytes("sum_received"));
        // What is on the way at the end counts at one end only.
        assert!(received > 1e6 && received <= sent, "{words:?}: {sent}, {received}");
        assert!(words[0] == "-t" || received >= 2e6, "{received}");
    }
}

fn a_run_without_an_end_ends_when_its_goodput_is_known() {
    let lab = with_responder();
    for direction in [&[][..], &["-R"]] {
        let report = near(&lab, &[&["test", "far", "--json", "--no-save"], direction].concat());
        // Not within a usual burst of a shaper, and within five seconds after the ramp.
        let elapsed = number(&report["observation"]["elapsed_us"]) / 1e6;
        assert!((3.4..5.5).contains(&elapsed), "{elapsed} s: {:#}", report["analysis"]);
        let goodput = number(&report["analysis"]["goodput_bps"]);
        assert_near("goodput", goodput, 100e6 * 1448.0 / 1538.0, 0.03);
        assert_eq!(report["caveats"], Value::Array(Vec::new()), "{:#}", report["caveats"]);
    }
}

fn a_run_with_a_cap_in_bytes_ends_at_the_cap_or_when_its_goodput_is_known() {
    let lab = with_responder();
    for (cap, expected_s) in [("10M", 0.8..1.5), ("1G", 3.4..5.5)] {
        let words = ["test", "far", "-n", cap, "--until", "3%", "--json", "--no-save"];
        let report = near(&lab, &words);
        let elapsed = number(&report["observation"]["elapsed_us"]) / 1e6;
        assert!(expected_s.contains(&elapsed), "{cap}: {elapsed} s: {:#}", report["analysis"]);
        let caveats = report["caveats"].as_array().expect("caveats");
        assert!(caveats.iter().all(|it| it["code"] != "interrupted"), "{caveats:?}");
    }
}

fn a_run_ends_soon_after_its_time() {
    let lab = with_responder();
    let script = format!(
        "cut -d' ' -f1 /proc/uptime; {} test far -t 1 --no-save -q >&2; cut -d' ' -f1 /proc/uptime",
        lab.program()
    );
    let printed = lab.near(&["sh", "-c", &script]);
    let times: Vec<f64> = printed.split_whitespace().flat_map(str::parse).collect();
    let &[begin, end] = &times[..] else {
        panic!("two times: {printed}");
    };
    assert!((1.0..2.5).contains(&(end - begin)), "{printed}");
}

fn a_requested_window_is_kept() {
    let lab = with_responder();
    let report = near(&lab, &["test", "far", "-w", "100K", "-t", "2", "--json", "--no-save"]);
    let samples = report["observation"]["streams"][0]["sender"]["samples"].as_array();
    let windows = samples.into_iter().flatten();
    let mut windows: Vec<f64> =
        windows.filter_map(|sample| sample["tcp"]["peer_window_bytes"].as_f64()).collect();
    windows.sort_by(f64::total_cmp);
    assert!(windows[windows.len() / 2] <= 110_000.0, "{windows:?}");
}

fn a_capture_holds_every_delivered_byte() {
    let lab = with_responder();
    let file = std::env::temp_dir().join("run.pcapng").display().to_string();
    let test = ["test", "far", "-n", "2M", "--json", "--no-save", "--capture", &file];
    let report = near(&lab, &test);
    let ends = &report["observation"]["ends"];
    assert!(ends["sender"]["capture"]["dropped_packets"].as_u64().unwrap_or(0) == 0);
    let reading = near(&lab, &["capture", "show", &file, "--json"]);
    let captured = number(&reading["flows"][0]["forward"]["tcp"]["unique_bytes"]);
    assert!(captured >= number(&ends["receiver"]["bytes"]), "{captured}");
}

fn readers_and_writers_keep_to_the_rates_that_were_requested() {
    let lab = with_responder();
    let run = |option: &str| {
        let words = ["test", "far", option, "20M", "-t", "3", "--json", "--no-save"];
        let report = near(&lab, &words);
        let goodput = number(&report["analysis"]["goodput_bps"]);
        assert_near(option, goodput, 20e6, 0.03);
        report["observation"]["streams"][0].clone()
    };
    let full_share = |samples: &Value| {
        let samples = samples.as_array().expect("samples");
        let full = samples.iter().filter(|it| it["queue_bytes"].as_u64() > Some(0));
        full.count() as f64 / samples.len() as f64
    };
    let slow_reader = run("--read-rate");
    assert!(full_share(&slow_reader["receiver"]["samples"]) > 0.5);
    let blocked_us = number(&slow_reader["sender"]["blocked_us"]);
    assert!(blocked_us > 1e6, "the sender waits: {blocked_us} us");
    let slow_writer = run("--bitrate");
    assert!(full_share(&slow_writer["receiver"]["samples"]) < 0.5);
    let blocked_us = number(&slow_writer["sender"]["blocked_us"]);
    assert!(blocked_us < 1e5, "the sender never waits: {blocked_us} us");
}

fn datagrams_go_at_the_requested_rate_and_none_is_lost() {
    let lab = with_responder();
    for (rate, rate_bps) in [("8M", 8e6), ("60M", 60e6)] {
        let words = ["test", "far", "-u", "-b", rate, "-t", "2", "-P", "2", "--json"];
        let report = near(&lab, &[&words[..], &["--no-save"]].concat());
        let totals = &report["analysis"]["totals"];
        let sent = number(&totals["sender_bytes"]);
        assert_near("sent, bit/s", sent * 8.0 / 2.0, rate_bps, 0.01);
        assert_eq!(totals["receiver_bytes"].as_f64(), Some(sent));
    }
}

fn datagrams_over_the_mtu_are_not_fragmented_on_request() {
    let lab = with_responder();
    for direction in [&[][..], &["-R"]] {
        let words = ["test", "far", "-u", "-l", "4000", "-t", "1", "--json", "--no-save"];
        let words = [&words[..], direction].concat();
        let fragmented = near(&lab, &words);
        assert!(number(&fragmented["analysis"]["totals"]["receiver_bytes"]) > 0.0);
        let report = near(&lab, &[&words[..], &["--dont-fragment"]].concat());
        assert_eq!(report["analysis"]["totals"]["receiver_bytes"], 0);
        assert_eq!(report["analysis"]["limited_by"], "unknown");
        let why = "a datagram of 4000 bytes is larger than the MTU of the interface";
        let caveats = report["caveats"].to_string();
        assert!(caveats.contains(why), "{caveats}");
    }
}

fn samples_and_intervals_come_as_often_as_requested() {
    let lab = with_responder();
    let report = near(&lab, &["test", "far", "-t", "1", "--json", "--no-save"]);
    for end in ["sender", "receiver"] {
        let samples = &report["observation"]["streams"][0][end]["samples"];
        let count = samples.as_array().map_or(0, Vec::len);
        assert!((10..=110).contains(&count), "{end}: {count} samples");
    }
    let options = "iperf3 -c far -J --no-save -i 0.5 -t 1";
    let report = near(&lab, &options.split(' ').collect::<Vec<_>>());
    let intervals = report["intervals"].as_array().map(Vec::len);
    assert_eq!(intervals, Some(2), "{report}");
}

fn a_requested_window_is_kept_on_the_wire_of_iperf3() {
    let lab = with_responder();
    lab.serve(&format!("iperf3 -s -p {IPERF3_PORT}"));
    let words = "iperf3 -J -c far -t 3 -w 100K -p";
    let words: Vec<&str> = words.split(' ').chain([IPERF3_PORT]).collect();
    let report = near(&lab, &words);
    // The kernel opens a window of at most the buffer that was requested, in each round trip.
    let goodput = number(&report["end"]["sum_received"]["bits_per_second"]);
    assert!(goodput < 1.1 * 102_400.0 * 2.0 * 8.0 / 0.020, "{goodput}");
}

/// 100 ms at 1 Gbit/s are 12.5 MB, for which the guest has room.
fn the_connection_of_the_audit_reaches_the_window_it_requests() {
    let report = read_report(&["host", "--rtt", "100ms", "--rate", "1G"]);
    let effective = report["observation"]["effective"].as_array().expect("effective values");
    let window = effective.iter().find(|it| it["what"] == "receive_window");
    let window = window.unwrap_or_else(|| panic!("no window: {effective:#?}"));
    let bytes = |key: &str| window[key].as_str().and_then(|it| it.parse::<u64>().ok());
    assert_eq!(bytes("asked"), Some(12_500_000), "{window:#}");
    assert!(bytes("got") >= bytes("asked"), "{window:#}");
}
