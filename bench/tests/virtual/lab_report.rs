//! Reports of longhaul on a path of the lab.

use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Virtual time for one command, the setup of its path and its removal.
const LIMIT: Duration = Duration::from_secs(200);

/// Returns the report of a command of longhaul that runs at the near end of a path while
/// `longhaul serve` runs at the far end. `lab` is the path with the options of `longhaul lab run`.
pub fn lab_report(lab: &[&str], words: &[&str]) -> Value {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let program = longhaul.to_str().expect("UTF-8");
    let report = read_report(&[&["lab", "run"], lab, &["--", program], words].concat());
    let environment = report["run"]["environment"].as_str().unwrap_or_default();
    assert!(environment.starts_with("lab:"), "measured in {environment:?}");
    report
}

/// Returns the report of a command of longhaul.
pub fn read_report(words: &[&str]) -> Value {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let mut command = Command::new(longhaul);
    command.args(words).args(["--json", "--no-save", "--quiet"]);
    let text =
        xtask::program_runner::capture_stdout(&mut command, LIMIT).expect("the command succeeds");
    serde_json::from_str(&text).expect("the report is JSON")
}

/// Returns the parts of a report that explain a failed assertion.
pub fn explain(report: &Value) -> String {
    format!("{:#}\n{:#}", report["analysis"], report["findings"])
}

/// Asserts that a value lies within a share of the expected one.
pub fn assert_near(what: &str, value: f64, expected: f64, share: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off <= share, "{what}: {value}, expected {expected}");
}

/// Returns a number of a report.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value:#}"))
}
