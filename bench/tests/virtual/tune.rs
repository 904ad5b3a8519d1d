//! What SLAC found with days of scans, found in a handful of probes: one stream to SDSC, and the
//! host at Daresbury that clips its windows. Needs root: one path clips buffers for the whole
//! machine while it stands.

use crate::lab_report::{explain, lab_report};
use serde_json::Value;

crate::virtual_tests!(
    one_stream_to_sdsc_is_found_to_fill_the_narrow_hop_in_few_probes,
    the_host_that_clips_is_named_with_the_value_it_needs_and_streams_are_the_stopgap,
);

/// Returns the report of `longhaul tune` on a shipped path, with probes of `time`.
fn tune(path: &str, time: &str) -> Value {
    lab_report(&[path], &["tune", "far", "-t", time])
}

/// The recommended setting and its goodput, bit/s.
fn recommended(report: &Value) -> (&Value, f64) {
    let choice = &report["analysis"]["directions"][0]["recommended"];
    let goodput = choice["goodput_bps"].as_f64();
    let goodput = goodput.unwrap_or_else(|| panic!("nothing recommended: {}", explain(report)));
    (&choice["setting"], goodput)
}

fn one_stream_to_sdsc_is_found_to_fill_the_narrow_hop_in_few_probes() {
    let report = tune("slac-sdsc", "3s");
    let (setting, goodput) = recommended(&report);
    assert_eq!(setting["streams"], 1, "{}", explain(&report));
    // 130 Mbit/s on the wire, less headers and preambles of 90 bytes in 1538.
    let narrow = 130e6 * 1448.0 / 1538.0;
    assert!((goodput / narrow - 1.0).abs() <= 0.05, "{goodput} bit/s");
    let probes = report["analysis"]["probes_run"].as_u64();
    assert!(probes.is_some_and(|n| n <= 8), "{}", explain(&report));
}

fn the_host_that_clips_is_named_with_the_value_it_needs_and_streams_are_the_stopgap() {
    let report = tune("slac-daresbury", "5s");
    let (setting, _) = recommended(&report);
    // The window of 64 to 80 KiB carries half of the 7.5 Mbit/s that others leave free.
    let streams = setting["streams"].as_u64();
    assert!(streams.is_some_and(|n| n >= 2), "{}", explain(&report));
    let advice = report["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|finding| finding["advice"].as_array().into_iter().flatten());
    // A sysctl of the receiver, and what it must be: the last number, bytes.
    let wanted = advice.into_iter().find_map(|advice| {
        let command = advice["command"].as_str()?;
        let of_window =
            ["net.core.rmem_max", "net.ipv4.tcp_rmem"].iter().any(|name| command.contains(name));
        let of_far = advice["place"] == "receiver" && advice["text"].as_str()?.contains("far");
        let value = command.trim_end_matches('"').rsplit([' ', '=', '"']).next()?;
        value.parse::<u64>().ok().filter(|_| of_window && of_far)
    });
    // 10 Mbit/s for 160 ms are 200 kB, and the kernel keeps as much again for itself.
    let enough = wanted.is_some_and(|bytes| bytes >= 400_000);
    assert!(enough, "{wanted:?}: {}", explain(&report));
}
