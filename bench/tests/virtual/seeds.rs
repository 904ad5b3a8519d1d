//! What the experts of 2001 and 2004 found by hand, found by longhaul alone, on the shipped paths.
//! Needs root: one path clips buffers for the whole machine while it stands.

use crate::lab_report::{assert_near, explain, lab_report};
use serde_json::Value;

crate::virtual_tests!(
    a_far_host_that_clips_its_buffers_is_found_and_named,
    one_default_stream_over_172_ms_is_held_by_the_window,
    the_narrow_last_hop_to_sdsc_is_filled_by_one_stream_with_its_window,
);

fn measure(path: &str, options: &[&str]) -> Value {
    lab_report(&[path], &[&["test", "far"], options].concat())
}

/// The steady goodput of a run that `limiter` must have held.
fn goodput_held_by(report: &Value, limiter: &str) -> f64 {
    let analysis = &report["analysis"];
    assert_eq!(analysis["limited_by"], limiter, "{}", explain(report));
    analysis["goodput_bps"].as_f64().expect("a steady rate")
}

fn a_far_host_that_clips_its_buffers_is_found_and_named() {
    let report = measure("slac-daresbury", &["--window", "256K", "-t", "10"]);
    let buffer = &report["observation"]["streams"][0]["receiver"]["receive_buffer"];
    assert_eq!(buffer["asked_bytes"], 262_144);
    assert_eq!(buffer["granted_bytes"], 65_536);
    assert_eq!(buffer["stored_bytes"], 131_072);
    let goodput = goodput_held_by(&report, "receive_window");
    assert_near("goodput, bit/s", goodput, 65_536.0 * 8.0 / 0.160, 0.15);
    let advice = report["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|finding| finding["advice"].as_array().into_iter().flatten())
        .find(|advice| {
            advice["command"].as_str().is_some_and(|command| command.contains("net.core.rmem_max"))
        })
        .unwrap_or_else(|| panic!("no advice on net.core.rmem_max: {}", explain(&report)));
    assert_eq!(advice["place"], "receiver");
    assert!(advice["text"].as_str().is_some_and(|text| text.contains("far")), "{advice}");
}

fn one_default_stream_over_172_ms_is_held_by_the_window() {
    let report = measure("la-geneva", &["-t", "12"]);
    let goodput = goodput_held_by(&report, "receive_window");
    let samples = report["observation"]["streams"][0]["sender"]["samples"].as_array();
    let window = samples
        .and_then(|samples| samples.last())
        .and_then(|last| last["tcp"]["peer_window_bytes"].as_f64())
        .expect("the kernel tells the window");
    assert_near("goodput, bit/s", goodput, window * 8.0 / 0.172, 0.15);
}

fn the_narrow_last_hop_to_sdsc_is_filled_by_one_stream_with_its_window() {
    let report = measure("slac-sdsc", &["--window", "1M", "-t", "8"]);
    let goodput = goodput_held_by(&report, "path_capacity");
    // 130 Mbit/s on the wire, less headers and preambles of 90 bytes in 1538.
    assert_near("goodput, bit/s", goodput, 130e6 * 1448.0 / 1538.0, 0.05);
}
