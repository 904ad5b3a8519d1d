//! Rates, counts and times of single runs over a path of 100 Mbit/s and 20 ms: what the tests on the
//! machine's own clock must not assert.

use crate::lab::{StandingLab, TUN};
use serde_json::Value;

crate::virtual_tests!(
    loads_keep_to_the_rates_that_were_requested,
    both_ends_of_a_run_with_iperf3_agree,
    iperf3_and_longhaul_as_its_peer_count_alike,
    a_run_ends_soon_after_its_time,
    a_requested_window_is_kept,
    a_capture_holds_every_delivered_byte,
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

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value:#}"))
}

fn assert_near(what: &str, value: f64, expected: f64, ratio: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off <= ratio, "{what}: {value}, expected {expected}");
}

fn loads_keep_to_the_rates_that_were_requested() {
    let lab = with_responder();
    let words = [
        "load",
        "far",
        "-b",
        "20M,60M",
        "-t",
        "2s",
        "--idle",
        "1s",
        "--json",
        "--no-save",
    ];
    let report = near(&lab, &words);
    let analysis = &report["analysis"];
    assert_near(
        "idle, ns",
        number(&analysis["idle"]["rtt_median_ns"]),
        20e6,
        0.01,
    );
    for (step, rate_bps) in [(0, 20e6), (1, 60e6)] {
        let goodput = number(&analysis["steps"][step]["goodput_bps"]);
        assert_near("goodput", goodput, rate_bps, 0.05);
    }
}

fn both_ends_of_a_run_with_iperf3_agree() {
    let lab = with_responder();
    lab.serve(&format!("iperf3 -s -p {IPERF3_PORT}"));
    let test = [
        "test",
        "far",
        "-p",
        IPERF3_PORT,
        "--iperf3",
        "--json",
        "--no-save",
        "-P",
        "2",
    ];
    for direction in [&[][..], &["-R"]] {
        let words = [&test[..], &["-t", "2", "-b", "40M"], direction].concat();
        let report = near(&lab, &words);
        let totals = &report["analysis"]["totals"];
        let (sent, received) = (&totals["sender_bytes"], &totals["receiver_bytes"]);
        assert_near("received", number(received), number(sent), 0.02);
        // From this end alone, a sender at the other end cannot be judged.
        let limiter = if direction.is_empty() {
            "application"
        } else {
            "unknown"
        };
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
        assert!(
            received > 1e6 && received <= sent,
            "{words:?}: {sent}, {received}"
        );
        assert!(words[0] == "-t" || received >= 2e6, "{received}");
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
    let report = near(
        &lab,
        &[
            "test",
            "far",
            "-w",
            "100K",
            "-t",
            "2",
            "--json",
            "--no-save",
        ],
    );
    let samples = report["observation"]["streams"][0]["sender"]["samples"].as_array();
    let windows = samples.into_iter().flatten();
    let mut windows: Vec<f64> = windows
        .filter_map(|sample| sample["tcp"]["peer_window_bytes"].as_f64())
        .collect();
    windows.sort_by(f64::total_cmp);
    assert!(windows[windows.len() / 2] <= 110_000.0, "{windows:?}");
}

fn a_capture_holds_every_delivered_byte() {
    let lab = with_responder();
    let file = std::env::temp_dir()
        .join("run.pcapng")
        .display()
        .to_string();
    let test = [
        "test",
        "far",
        "-n",
        "2M",
        "--json",
        "--no-save",
        "--capture",
        &file,
    ];
    let report = near(&lab, &test);
    let ends = &report["observation"]["ends"];
    assert!(
        ends["sender"]["capture"]["dropped_packets"]
            .as_u64()
            .unwrap_or(0)
            == 0
    );
    let reading = near(&lab, &["capture", "show", &file, "--json"]);
    let captured = number(&reading["flows"][0]["forward"]["tcp"]["unique_bytes"]);
    assert!(captured >= number(&ends["receiver"]["bytes"]), "{captured}");
}
