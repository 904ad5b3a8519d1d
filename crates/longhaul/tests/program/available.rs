//! `longhaul available` as its users meet it.

use crate::loopback::FarEnd;
use crate::support::{Folder, longhaul};
use serde_json::Value;

fn said(arguments: &[&str]) -> String {
    let assert = longhaul().args(arguments).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for options in [
        &["--light", "--careful"][..],
        &["--forward", "-R"],
        &["--tcp", "80", "-R"],
        &["--bytes", "1k"],
        &["--shaper=1h"],
    ] {
        longhaul().args(["available", "192.0.2.1"]).args(options).assert().code(2);
    }
}

/// What holds for either direction of a run over loopback.
fn is_honest(estimate: &Value, probing: &Value, most_bytes: u64) {
    let verdict = estimate["verdict"].as_str().expect("a verdict");
    let known = ["estimated", "capacity_only", "sender_limited", "beyond_resolution", "disturbed"];
    // Which one, nobody knows of a machine that may stand still at any time.
    assert!(known.contains(&verdict), "{verdict}");
    let bytes = probing["probe_bytes"].as_u64().expect("bytes");
    assert!((1..=most_bytes).contains(&bytes), "{bytes} bytes");
    assert_eq!(probing["receive_clock"], "kernel");
}

#[test]
fn a_run_over_loopback_stays_in_its_budget_and_is_kept() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("available-loopback");
    let archive = folder.file("archive.sqlite3");
    let archive = archive.to_str().expect("UTF-8");
    let options = ["--light", "--json", "--archive", archive];
    let assert = far.command("available", &options).assert().success();
    let output = assert.get_output();
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["schema"], "longhaul.report/1");
    assert_eq!(report["kind"], "available");
    assert_eq!(report["plan"]["mode"], "light");
    for way in ["forward", "reverse"] {
        let (estimate, seen) = (&report["analysis"][way], &report["observation"][way]);
        is_honest(estimate, seen, 58_000);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("budget: at most 58 kB"), "{told}");
    let id = report["run"]["id"].as_str().expect("an id");
    let shown = said(&["report", "show", id, "--json", "--archive", archive]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown, report, "what is kept is what was shown");
    let text = said(&["report", "show", id, "--archive", archive]);
    assert!(text.contains("forward (client sends)"), "{text}");
}

#[test]
fn without_a_longhaul_at_the_far_end_the_error_says_what_to_do() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let assert = longhaul().args(["available", "127.0.0.1", "-p", &port]).assert().code(3);
    let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(told.contains("longhaul serve"), "{told}");
}
