//! `longhaul archive check`, `backup` and `prune`.

use crate::support::{Folder, fixture, longhaul, without_privileges};
use longhaul_model::report::v1::{AnyReport, ParentRun, RunEnvironment, ThroughputReport};
use longhaul_store::Archive;
use longhaul_store::history_store::IncomingRun;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn throughput_run(id: &str, started_at: &str) -> ThroughputReport {
    let text = fixture("slac-daresbury-window.json");
    let mut report: ThroughputReport = serde_json::from_str(&text).expect("a report");
    report.run.id = id.into();
    report.run.started_at = started_at.into();
    report.run.environment = Some(RunEnvironment::Network);
    report
}

/// An archive with a scan's probe and its parent, a run in the lab, a recent run, and a run of an
/// agent.
fn archive_with_runs(file: &Path) {
    let mut archive = Archive::open(file).expect("an archive");
    let old = "2020-01-01T00:00:00Z";
    archive.append(&throughput_run("parent", old)).expect("append");
    let mut part = throughput_run("part", "2020-01-01T00:01:00Z");
    part.run.part_of = Some(ParentRun { id: "parent".into(), index: 0 });
    archive.append(&part).expect("append");
    let mut lab = throughput_run("lab", "2026-01-01T00:00:00Z");
    lab.run.environment = Some(RunEnvironment::Lab("la-geneva".into()));
    archive.append(&lab).expect("append");
    archive.append(&throughput_run("recent", "2026-01-01T00:00:00Z")).expect("append");
    let watched = AnyReport::Throughput(Box::new(throughput_run("watched", old)));
    let watched = IncomingRun::from_report(&watched, 1_577_836_800_000_000).expect("a run");
    archive.append_runs(&[watched]).expect("append");
}

fn archive_command(file: &Path, words: &[&str], code: i32) -> (String, String) {
    let assert =
        longhaul().arg("archive").args(words).arg("--archive").arg(file).assert().code(code);
    let output = assert.get_output();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn ids(file: &Path) -> Vec<String> {
    let archive = Archive::open(file).expect("an archive");
    let all = longhaul_store::history_store::RunFilter::newest(100);
    let mut ids: Vec<String> =
        archive.runs(&all).expect("runs").into_iter().map(|run| run.id).collect();
    ids.sort();
    ids
}

#[test]
fn a_whole_archive_is_ok_and_a_damaged_one_is_not() {
    let folder = Folder::new("archive_check");
    let file = folder.file("archive.sqlite3");
    archive_with_runs(&file);
    let (text, _) = archive_command(&file, &["check"], 0);
    assert!(text.contains("5, 1 of an agent") && text.contains("ok"), "{text}");
    archive_command(&file, &["prune", "--kind", "path", "--compact"], 0);
    let mut bytes = std::fs::read(&file).expect("the file");
    let head = br#"longhaul.report/1","kind":"throughput","run":{"id":"lab""#;
    let at = bytes.windows(head.len()).position(|part| part == head).expect("the report");
    bytes[at + "longhaul.report/".len()] = b'9';
    std::fs::write(&file, bytes).expect("another schema");
    let (text, error) = archive_command(&file, &["check"], 6);
    assert!(text.contains("run lab has schema `longhaul.report/9`"), "{text}");
    assert!(error.contains("1 problem in") && error.contains("hint: restore a backup"), "{error}");
    println!("attack: tried 1");
}

#[test]
fn a_page_that_is_overwritten_is_found() {
    let folder = Folder::new("archive_pages");
    let file = folder.file("archive.sqlite3");
    archive_with_runs(&file);
    archive_command(&file, &["prune", "--kind", "path", "--compact"], 0);
    let mut bytes = std::fs::read(&file).expect("the file");
    let middle = bytes.len() / 2 / 8192 * 8192;
    bytes[middle..middle + 8192].fill(0x5A);
    std::fs::write(&file, bytes).expect("damage");
    let (text, error) = archive_command(&file, &["check"], 6);
    assert!(format!("{text}{error}").contains("damaged"), "{text}{error}");
    println!("attack: tried 1");
}

#[test]
fn a_backup_is_an_archive_with_the_same_runs_and_replaces_nothing() {
    let folder = Folder::new("archive_backup");
    let (file, copy) = (folder.file("archive.sqlite3"), folder.file("copy.sqlite3"));
    archive_with_runs(&file);
    let name = copy.to_str().expect("UTF-8");
    let (text, _) = archive_command(&file, &["backup", name], 0);
    assert!(text.starts_with("backup"), "{text}");
    assert_eq!(ids(&copy), ids(&file));
    archive_command(&copy, &["check"], 0);
    let (_, error) = archive_command(&file, &["backup", name], 2);
    assert!(error.contains("copy.sqlite3: it exists"), "{error}");
    let names = std::fs::read_dir(&folder.0).expect("the folder");
    let parts = names.filter(|it| it.as_ref().unwrap().path().to_string_lossy().contains(".part"));
    assert_eq!(parts.count(), 0);
}

#[test]
fn runs_before_a_time_are_deleted_with_their_probes_but_those_of_an_agent_are_kept() {
    let folder = Folder::new("archive_prune");
    let file = folder.file("archive.sqlite3");
    archive_with_runs(&file);
    let all = ids(&file);
    let (text, _) = archive_command(&file, &["prune", "--before", "2021-01-01", "--dry-run"], 0);
    assert!(text.starts_with("would delete") && text.contains("2 runs"), "{text}");
    assert_eq!(ids(&file), all);
    let (text, _) = archive_command(&file, &["prune", "--before", "2021-01-01", "--json"], 0);
    let pruned: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(pruned["runs"], 2);
    assert_eq!(ids(&file), ["lab", "recent", "watched"]);
}

#[test]
fn runs_of_the_lab_are_deleted_and_the_space_is_returned() {
    let folder = Folder::new("archive_compact");
    let file = folder.file("archive.sqlite3");
    archive_with_runs(&file);
    let before = std::fs::metadata(&file).expect("the file").len();
    archive_command(&file, &["prune", "--environment", "lab", "--compact"], 0);
    assert_eq!(ids(&file), ["parent", "part", "recent", "watched"]);
    assert!(std::fs::metadata(&file).expect("the file").len() < before);
}

#[test]
fn nothing_is_deleted_without_a_selection() {
    let folder = Folder::new("archive_selection");
    let file = folder.file("archive.sqlite3");
    archive_with_runs(&file);
    let (_, error) = archive_command(&file, &["prune"], 2);
    assert!(error.contains("--before") && error.contains("--environment"), "{error}");
    assert_eq!(ids(&file).len(), 5);
}

#[test]
fn an_archive_in_a_read_only_folder_is_listed_and_shown_unless_runs_are_in_its_log() {
    let folder = Folder::new("archive_read_only");
    let closed = folder.file("closed? 100 %");
    let file = closed.join("archive.sqlite3");
    Archive::open(&file)
        .expect("an archive")
        .append(&throughput_run("one", "2026-01-01T00:00:00Z"))
        .expect("append");
    let with_mode = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    };
    let report = |words: &[&str], code| {
        let mut command = without_privileges(&["report"]);
        let assert = command.args(words).arg("--archive").arg(&file).assert().code(code);
        let output = assert.get_output();
        String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
    };
    with_mode(&closed, 0o555);
    for mode in [0o600, 0o400] {
        with_mode(&file, mode);
        assert!(report(&["list"], 0).contains("one"));
        assert!(report(&["show", "last"], 0).contains("limited by"));
    }
    with_mode(&closed, 0o755);
    fs::write(closed.join("archive.sqlite3-wal"), "runs").expect("a log");
    with_mode(&closed, 0o555);
    let told = report(&["list"], 6);
    assert!(told.contains("its last runs are in") && told.contains("hint: copy both"), "{told}");
    with_mode(&closed, 0o755);
}
