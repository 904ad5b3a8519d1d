//! What SLAC found with days of scans, found in a handful of probes: one stream to SDSC, and the
//! host at Daresbury that clips its windows. Needs root: one path clips buffers for the whole
//! machine while it stands.

use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// A search, its set-up and its tear-down, and other labs that hold the machine-wide settings.
const LIMIT: Duration = Duration::from_secs(200);

/// What `longhaul tune` says of a shipped path, with probes of `time`.
fn tune(path: &str, time: &str) -> Value {
    xtask::needs::namespaces().expect("the path lies between network namespaces");
    let longhaul = xtask::process::longhaul_for_tests().expect("the program builds");
    let mut lab = Command::new(&longhaul);
    lab.args(["lab", "run", path, "--"]).arg(&longhaul);
    lab.args(["tune", "far", "-t", time, "--json", "--no-save", "--quiet"]);
    let text = xtask::process::stdout_of(&mut lab, LIMIT).expect("the search ends well");
    serde_json::from_str(&text).expect("the report is JSON")
}

/// The recommended setting and its goodput, bit/s.
fn recommended(report: &Value) -> (&Value, f64) {
    let choice = &report["analysis"]["directions"][0]["recommended"];
    let goodput = choice["goodput_bps"].as_f64();
    let goodput = goodput.unwrap_or_else(|| panic!("nothing recommended: {}", said(report)));
    (&choice["setting"], goodput)
}

fn said(report: &Value) -> String {
    format!("{:#}\n{:#}", report["analysis"], report["findings"])
}

#[test]
fn one_stream_to_sdsc_is_found_to_fill_the_narrow_hop_in_few_probes() {
    let report = tune("slac-sdsc", "5s");
    let (setting, goodput) = recommended(&report);
    assert_eq!(setting["streams"], 1, "{}", said(&report));
    // 130 Mbit/s on the wire, less headers and preambles of 90 bytes in 1538.
    let narrow = 130e6 * 1448.0 / 1538.0;
    assert!((goodput / narrow - 1.0).abs() <= 0.05, "{goodput} bit/s");
    let probes = report["analysis"]["probes_run"].as_u64();
    assert!(probes.is_some_and(|n| n <= 8), "{}", said(&report));
}

#[test]
fn the_host_that_clips_is_named_with_the_value_it_needs_and_streams_are_the_stopgap() {
    let report = tune("slac-daresbury", "5s");
    let (setting, _) = recommended(&report);
    let streams = setting["streams"].as_u64();
    assert!(streams.is_some_and(|n| n >= 3), "{}", said(&report));
    let needs = report["analysis"]["directions"][0]["needs"].as_array();
    let clipped = needs.into_iter().flatten().find(|need| {
        let name = need["name"].as_str();
        name.is_some_and(|name| ["net.core.rmem_max", "net.ipv4.tcp_rmem"].contains(&name))
    });
    let clipped = clipped.unwrap_or_else(|| panic!("no need of a window: {}", said(&report)));
    assert_eq!(clipped["place"], "receiver", "{clipped}");
    assert_eq!(clipped["host"], "far", "{clipped}");
    let wanted = clipped["wanted"]
        .as_str()
        .and_then(|wanted| wanted.split_whitespace().last()?.parse::<u64>().ok());
    // 10 Mbit/s for 160 ms are 200 kB, and the kernel keeps at least as much for itself.
    assert!(wanted.is_some_and(|bytes| bytes >= 150_000), "{clipped}");
}
