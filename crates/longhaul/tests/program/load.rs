//! `longhaul load` over loopback, from the command line to archive and picture.

use crate::loopback::FarEnd;
use crate::support::{Folder, longhaul};
use serde_json::Value;
use std::fs;

/// Half a second of load between short idle times.
const SHORT: [&str; 5] = ["--time", "0.6s", "--idle", "0.5s", "--json"];

fn report(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("a report as JSON")
}

#[test]
fn loads_are_measured_kept_drawn_and_shown_again() {
    let folder = Folder::new("load-kept");
    let archive = folder.file("archive.sqlite3");
    let picture = folder.file("load.svg");
    let far = FarEnd::start(&[]);
    let said = far
        .command("load", &SHORT)
        .args(["-b", "20M,80M", "--archive"])
        .arg(&archive)
        .arg("--plot")
        .arg(&picture)
        .assert()
        .success();
    let found = report(&said.get_output().stdout);
    assert_eq!(found["kind"], "load");
    let phases = found["observation"]["phases"].as_array().expect("phases");
    let steps: Vec<Option<u64>> = phases.iter().map(|p| p["step"].as_u64()).collect();
    assert_eq!(steps, [None, Some(0), None, Some(1), None]);
    let ends = phases.windows(2).all(|w| w[0]["until_us"] == w[1]["from_us"]);
    assert!(ends, "phases leave no gap: {phases:?}");
    let rate = |step: usize| found["plan"]["steps"][step]["rate_bps"].as_u64();
    assert_eq!((rate(0), rate(1)), (Some(20_000_000), Some(80_000_000)));
    let run = phases[1]["load"]["run_id"].as_str();
    let show = |id: &str| {
        let mut command = longhaul();
        command.args(["report", "show", id, "--json", "--archive"]).arg(&archive);
        report(&command.assert().success().get_output().stdout)
    };
    let own = show(run.expect("the load's own run"));
    assert_eq!(own["run"]["part_of"]["id"], found["run"]["id"]);
    assert_eq!(show("last")["kind"], "load");
    let drawn = fs::read_to_string(&picture).expect("the picture");
    assert!(drawn.starts_with("<svg") && drawn.contains("seconds"));
    let again = folder.file("again.svg");
    let mut command = longhaul();
    command.args(["report", "show", "last", "--archive"]).arg(&archive);
    let text = command.arg("--plot").arg(&again).assert().success();
    let text = String::from_utf8(text.get_output().stdout.clone()).expect("UTF-8");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(again.exists());
}

#[test]
fn a_scavenger_and_a_competitor_are_loaded_in_one_run() {
    let far = FarEnd::start(&[]);
    let said = far
        .command("load", &SHORT)
        .args(["--scavenger", "--competitor", "--no-save"])
        .assert()
        .success();
    let found = report(&said.get_output().stdout);
    let steps = found["plan"]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 6);
    assert!(found["observation"]["phases"][1]["load"]["run_id"].is_null());
}

#[test]
fn what_cannot_be_run_is_refused_before_it_begins() {
    for (options, told) in [
        (&["--time", "10min", "--probe-interval", "1ms"][..], "total probes"),
        (&["--plot", "load.png"], "ends in .svg"),
        (&["-b", "fast"], "expected a rate"),
        (&["--idle", "0s"], "must be"),
    ] {
        let mut command = longhaul();
        let said = command.args(["load", "127.0.0.1", "-p", "9"]).args(options).assert();
        let said = said.code(2);
        let text = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
        assert!(text.contains(told), "{options:?}: {text}");
    }
    let mut nobody = longhaul();
    nobody.args(["load", "127.0.0.1", "-p", "9"]).assert().code(3);
}

#[test]
fn responsiveness_is_measured_with_both_kinds_of_probes_and_shown_again() {
    let folder = Folder::new("load-rpm");
    let archive = folder.file("archive.sqlite3");
    let far = FarEnd::start(&["--rpm"]);
    let options = ["--rpm", "--time", "3s", "--idle", "0.5s", "--json", "--archive"];
    let said = far.command("load", &options).arg(&archive).assert().success();
    let found = report(&said.get_output().stdout);
    assert_eq!(found["kind"], "load");
    for direction in ["download", "upload"] {
        let result = &found["analysis"][direction];
        for part in ["foreign_round_trips_per_minute", "self_round_trips_per_minute"] {
            assert!(result[part].as_u64() > Some(0), "{result:#}");
        }
        // The bytes of a run are those of the intervals, one for each second.
        let seen = &found["observation"]["responsiveness"][direction];
        assert_eq!(seen["interval_bytes"].as_array().map(Vec::len), Some(3), "{seen:#}");
        assert_eq!(result["capacity_confidence"], "low");
    }
    let mut command = longhaul();
    command.args(["report", "show", "last", "--archive"]).arg(&archive);
    let text = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains(" RPM, ") && text.contains("(low confidence)"), "{text}");
}

#[test]
fn a_server_without_responsiveness_is_named_with_the_option_that_serves_it() {
    let far = FarEnd::start(&[]);
    let assert = far.command("load", &["--rpm", "--no-save"]).assert().code(3);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("longhaul serve --rpm"), "{text}");
}
