//! `longhaul predict`: what it prints, keeps and refuses; and `longhaul predict finish`.

use crate::support::{self, Folder, longhaul};
use longhaul_model::report::v1::{AnyReport, PredictionReport, RunEnvironment, ThroughputReport};
use longhaul_store::Archive;
use serde_json::Value;
use std::path::Path;

const PATH: [&str; 5] = ["predict", "--rtt", "160ms", "--rate", "100M"];

#[test]
fn a_prediction_is_printed_filed_and_drawn() {
    let folder = Folder::new("predict");
    let (archive, figure) = (folder.file("archive.sqlite3"), folder.file("figure.svg"));
    let output = longhaul()
        .args(PATH)
        .args(["-w", "64K-4M", "-P", "1,2,8", "-C", "cubic,bbr", "--json"])
        .arg("--archive")
        .arg(&archive)
        .arg("--plot")
        .arg(&figure)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let printed: PredictionReport = serde_json::from_slice(&output).expect("a report");
    assert_eq!(printed.analysis.cells.len(), 7 * 3 * 2);
    let first = &printed.analysis.cells[0];
    // 64 KiB in each 160 ms.
    assert!((first.goodput_bps as f64 / 3_276_800.0 - 1.0).abs() < 0.02);

    let filed = Archive::open(&archive).expect("the archive");
    let AnyReport::Predict(kept) = filed.find("last").expect("the run") else {
        panic!("another kind was filed");
    };
    assert_eq!(*kept, printed);
    let drawn = std::fs::read_to_string(&figure).expect("the figure");
    assert!(drawn.contains("<svg"));
}

#[test]
fn the_page_of_a_prediction_fits_80_columns() {
    let folder = Folder::new("predict_page");
    let output = longhaul()
        .args(PATH)
        .args(["--loss", "0,1e-4"])
        .arg("--archive")
        .arg(folder.file("archive.sqlite3"))
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let text = String::from_utf8(output).expect("UTF-8");
    assert!(text.contains("cubic, no loss") && text.contains("0.0100 % loss"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_cannot_be_predicted_is_refused_with_the_reason() {
    let folder = Folder::new("predict_refused");
    let cases: [(&[&str], u8, &str); 7] = [
        (&["--rtt", "0s", "--rate", "1G"], 2, "must be 10 µs"),
        (&["--rtt", "10ms"], 2, "--rate"),
        (&["--rtt", "10ms", "--rate", "1G", "-w", "4M-64K"], 2, "backwards"),
        (
            &["--rtt", "10ms", "--rate", "1G", "-C", "vegas"],
            2,
            "[possible values: reno, cubic, bbr]",
        ),
        (&["--rtt", "10ms", "--rate", "1G", "--loss", "0.9"], 2, "must be 0 to 0.5"),
        (&["--rtt", "10ms", "--rate", "1G", "-w", "1K-1M/1K", "-P", "1-128"], 2, "at most 4096"),
        (&["--scan", "last"], 6, "cannot find the archive"),
    ];
    for (options, code, told) in cases {
        let output = longhaul()
            .arg("predict")
            .args(options)
            .arg("--archive")
            .arg(folder.file("none.sqlite3"))
            .assert()
            .code(i32::from(code))
            .get_output()
            .stderr
            .clone();
        let text = String::from_utf8_lossy(&output);
        assert!(text.contains(told), "{options:?}: {text}");
    }
}

/// Fills an archive with two weeks of hourly tests from near to far, slower at the working hours
/// given.
fn archive_tests(file: &Path, count: i64, rate_bps: impl Fn(i64) -> u64) {
    let text = support::fixture("slac-daresbury-window.json");
    let mut report: ThroughputReport = serde_json::from_str(&text).expect("a report");
    report.run.initiator.host = "near".into();
    report.run.responder.host = "far".into();
    report.run.responder.port = None;
    report.run.environment = Some(RunEnvironment::Network);
    for advice in report.findings.iter_mut().flat_map(|finding| &mut finding.advice) {
        advice.expected_bps = None;
    }
    let mut archive = Archive::open(file).expect("an archive");
    let now = jiff::Timestamp::now();
    for hours_ago in (1..=count).rev() {
        let at = now - jiff::SignedDuration::from_hours(hours_ago);
        report.run.id = format!("test-{hours_ago}");
        report.run.started_at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let scatter = u64::from(hours_ago.unsigned_abs() as u32 * 37 % 11) * 1_000_000;
        report.analysis.goodput_bps = Some(rate_bps(at.as_second() / 3600) + scatter);
        archive.append(&report).expect("append");
    }
}

fn forecast(file: &Path, options: &[&str], code: i32) -> String {
    let assert = longhaul()
        .args(["predict", "finish", "--environment", "network", "--archive"])
        .arg(file)
        .args(options)
        .assert()
        .code(code);
    let output = assert.get_output();
    let text = if code == 0 { &output.stdout } else { &output.stderr };
    String::from_utf8(text.clone()).expect("UTF-8")
}

#[test]
fn a_finish_time_comes_from_the_tests_of_the_archive() {
    let folder = Folder::new("predict_finish");
    let file = folder.file("archive.sqlite3");
    archive_tests(&file, 24 * 14, |_| 1_000_000_000);
    // 4 h at 1 Gbit/s.
    let options = ["--bytes", "1800G", "--to", "far", "--json", "--by", "20h"];
    let found: Value = serde_json::from_str(&forecast(&file, &options, 0)).expect("JSON");
    let hours = |name: &str| found[name].as_u64().expect("a time") as f64 / 3.6e9;
    let bits = 1800.0 * f64::from(1 << 30) * 8.0;
    let truth = bits / 1.005e9 / 3600.0;
    assert!((hours("duration_us") / truth - 1.0).abs() < 0.03, "{found}");
    assert!(hours("duration_low_us") < truth && truth < hours("duration_high_us"), "{found}");
    assert!(found["chance_ratio"].as_f64().expect("a chance") > 0.95, "{found}");
    assert_eq!(found["tests"], 24 * 14);
    assert_eq!(found["pair"]["from"], "near");
}

#[test]
fn a_start_outside_busy_hours_and_the_advice_of_the_newest_test_are_named() {
    let folder = Folder::new("predict_finish_busy");
    let file = folder.file("archive.sqlite3");
    // Busy from now on for eight hours of each day.
    let first = jiff::Timestamp::now().as_second() / 3600;
    archive_tests(&file, 24 * 14, |hour| {
        if (hour - first).rem_euclid(24) < 8 { 400_000_000 } else { 1_000_000_000 }
    });
    let text = forecast(&file, &["--bytes", "300G", "--to", "far", "--from", "near"], 0);
    assert!(text.contains("shorter") && text.contains("start at 20"), "{text}");
    assert!(text.contains("(receiver)") || text.contains("(sender)"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_deadline_in_the_past_and_an_archive_without_tests_are_refused_with_the_reason() {
    let folder = Folder::new("predict_finish_refused");
    let file = folder.file("archive.sqlite3");
    archive_tests(&file, 3, |_| 1_000_000_000);
    let sized = ["--bytes", "50T", "--to"];
    let cases: [(&[&str], i32, &str); 6] = [
        (&["far", "--by", "2026-01-01 06:40"], 2, "is in the past"),
        (&["far", "--by", "1h", "--start", "2h"], 2, "not after the start"),
        (&["far", "--by", "soon"], 2, "expected a time"),
        (&["elsewhere"], 6, "longhaul test elsewhere"),
        (&["near"], 6, "cannot find tests to near"),
        (&["far", "--from", "elsewhere"], 6, "cannot find tests from elsewhere"),
    ];
    for (options, code, told) in cases {
        let text = forecast(&file, &[&sized[..], options].concat(), code);
        assert!(text.contains(told), "{options:?}: {text}");
    }
    let text = forecast(&folder.file("none.sqlite3"), &[&sized[..], &["far"]].concat(), 6);
    assert!(text.contains("longhaul test far"), "{text}");
    let text = forecast(&file, &[&sized[..], &["far"]].concat(), 0);
    assert!(text.contains("3 tests only"), "{text}");
}
