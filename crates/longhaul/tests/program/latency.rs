//! `longhaul latency` against `longhaul serve --stamp`, over loopback.

use crate::far_end::FarEndServer;
use crate::support::{Folder, free_port, longhaul, reported};
use longhaul_model::report::v1::LatencyReport;
use std::fs;

/// Returns the report of 20 packets to the reflector on this port. The answer to the last packet may
/// take as long as a busy machine makes it.
pub fn measure_latency(port: u16, options: &[&str]) -> LatencyReport {
    let assert = longhaul()
        .args(["latency", "127.0.0.1", "--port", &port.to_string(), "--timeout", "30s"])
        .args(["-c", "20", "-i", "5ms", "--no-save", "--json"])
        .args(options)
        .assert()
        .success();
    serde_json::from_slice(&assert.get_output().stdout).expect("a report")
}

/// Starts a server that reflects on a port of its own.
pub fn start_reflector(options: &[&str]) -> (FarEndServer, u16) {
    let port = free_port();
    let stamp = format!("--stamp={port}");
    let server = FarEndServer::start(&[&[stamp.as_str()], options].concat());
    (server, port)
}

#[test]
fn every_packet_is_answered_by_both_kinds_of_reflectors() {
    for options in [&[][..], &["--stamp-stateful"]] {
        let (_server, port) = start_reflector(options);
        for size in ["44", "48", "1400"] {
            let report = measure_latency(port, &["--size", size, "--dscp", "EF"]);
            let analysis = &report.analysis;
            assert_eq!((analysis.sent, analysis.answered_packets), (20, 20), "{analysis:?}");
            assert!(analysis.rtt.is_some_and(|rtt| rtt.min_ns >= 0), "{analysis:?}");
            assert!(analysis.forward.as_ref().is_some_and(|it| it.variation.is_some()));
            assert_eq!(report.observation.forward_ttl, Some(255));
            assert_eq!(report.observation.discarded, 0);
        }
        let report = measure_latency(port, &["--twamp-light"]);
        assert_eq!(report.analysis.answered_packets, 20);
    }
}

#[test]
fn one_clock_gives_one_way_delays() {
    let (_server, port) = start_reflector(&[]);
    let report = measure_latency(port, &[]);
    assert_eq!(report.analysis.one_way_refused, None);
    for direction in [report.analysis.forward, report.analysis.reverse] {
        let direction = direction.expect("a direction");
        let (delay, error_ns) = (direction.delay.expect("a delay"), direction.delay_error_ns);
        // Over loopback a packet takes less than the error.
        assert!(delay.min_ns + error_ns.expect("its error") as i64 >= 0, "{direction:?}");
    }
}

#[test]
fn an_authenticated_reflector_answers_only_its_key() {
    let folder = Folder::new("latency_key");
    let file = |name: &str, key: &str| {
        fs::write(folder.file(name), key).expect("written");
        folder.file(name).to_str().expect("UTF-8").to_owned()
    };
    let (right, wrong) = (file("right", "the key\n"), file("wrong", "0x00ff"));
    let (_server, port) = start_reflector(&["--stamp-key", &right]);
    let report = measure_latency(port, &["--key-file", &right]);
    assert!(report.plan.authenticated && report.plan.payload_bytes == 112);
    assert_eq!(report.analysis.answered_packets, 20);
    let port = port.to_string();
    let refused =
        ["latency", "127.0.0.1", "-p", &port, "-c", "1", "--timeout", "10ms", "--no-save"];
    longhaul().args(refused).args(["--key-file", &wrong]).assert().code(3);
    longhaul().args(refused).assert().code(3);
    let empty = file("empty", "");
    let assert = longhaul().args(refused).args(["--key-file", &empty]).assert().code(2);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("it is empty"), "{said}");
}

#[test]
fn a_port_without_a_reflector_is_a_failure_with_advice_and_a_report() {
    let folder = Folder::new("latency_closed");
    let archive = folder.file("archive.sqlite3");
    let port = free_port().to_string();
    let assert = longhaul()
        .args(["latency", "127.0.0.1", "-p", &port, "-c", "20", "-i", "5ms", "--archive"])
        .arg(&archive)
        .assert()
        .code(3);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("cannot be reached") && said.contains("serve --stamp"), "{said}");
    let shown = reported(&archive, &["show", "last"], 0);
    assert!(shown.contains("no answer"), "{shown}");
}

#[test]
fn a_size_without_room_for_an_extension_is_refused() {
    let assert = longhaul().args(["latency", "127.0.0.1", "--size", "46"]).assert().code(2);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("--size 44") && said.contains("48"), "{said}");
}
