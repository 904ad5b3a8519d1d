//! Metrics and alerts as Prometheus's own tool reads them. `scripts/requirements.sh` installs it.

use super::scene::Scene;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs promtool in contrib/prometheus; panics unless it succeeds and has no remarks.
fn run_promtool(arguments: &[&str], input: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus");
    let child = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("promtool is installed: apt-get install prometheus");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}\n{input}");
    text
}

#[test]
fn metrics_in_the_text_format_have_no_fault_that_promtool_knows() {
    let scene = Scene::new();
    scene.desk.observe_duration("bulk", Duration::from_secs(3));
    for headers in [&[][..], &["accept: text/plain;version=0.0.4"], &["accept: */*"]] {
        let answer = scene.ask("GET", "/metrics", headers, "");
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
        assert_eq!(run_promtool(&["check", "metrics"], &answer.body), "");
        for line in [
            "# TYPE longhaul_runs_failed_total counter",
            "# TYPE longhaul_build_info gauge",
            "# TYPE longhaul_run_duration_seconds histogram",
            "longhaul_run_duration_seconds_bucket{le=\"5.0\",measure=\"bulk\"} 1",
        ] {
            assert!(answer.body.lines().any(|it| it == line), "{line} in {}", answer.body);
        }
        let samples = answer.body.lines().filter(|line| !line.starts_with('#'));
        for name in samples.filter_map(|line| line.split(['{', ' ']).next()) {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|it| name.strip_suffix(it));
            let family = family.filter(|it| it.ends_with("duration_seconds")).unwrap_or(name);
            for comment in ["HELP", "TYPE"] {
                let comment = format!("# {comment} {family} ");
                assert!(answer.body.contains(&comment), "no {comment}");
            }
        }
    }
}

#[test]
fn metrics_and_about_agree_on_the_runs_that_were_missed_today() {
    let scene = Scene::new();
    scene.miss_runs_today(&["failed", "disk_full", "locked", "locked"]);
    let metrics = scene.get("/metrics").body;
    let about = scene.json("/api/v1/about");
    let reasons = about["agent"]["missed_today_by_reason"].as_array().expect("reasons").clone();
    assert_eq!(reasons.len(), 3);
    for reason in reasons {
        let (word, runs) = (reason["reason"].as_str().expect("a word"), &reason["runs"]);
        let line = format!("longhaul_today_missed_runs{{reason=\"{word}\"}} {runs}.0");
        assert!(metrics.lines().any(|it| it == line), "{line} in {metrics}");
    }
}

#[test]
fn alerts_are_valid_and_fire_when_they_should() {
    run_promtool(&["check", "rules", "rules.yml"], "");
    run_promtool(&["test", "rules", "rules.test.yml"], "");
}
