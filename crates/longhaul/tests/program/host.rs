//! `longhaul host` as people and programs meet it, and this very host.

use crate::support::{Folder, longhaul};
use longhaul_model::report::v1::HostReport;
use longhaul_model::report::v1::host::AuditGrade;
use longhaul_store::Archive;

#[test]
fn this_host_is_judged_for_a_path_and_nothing_is_changed() {
    let folder = Folder::new("host_here");
    let file = folder.file("archive.sqlite3");
    let assert = longhaul()
        .args(["host", "--rtt", "160ms", "--rate", "10M", "--json", "--archive"])
        .arg(&file)
        .assert()
        .success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let told: HostReport = serde_json::from_str(&text).expect("a report");
    assert_eq!(told.plan.paths.len(), 1);
    assert!(told.observation.changes.is_empty());
    let window = told.analysis.verdicts.iter();
    let window: Vec<AuditGrade> = window
        .filter(|verdict| verdict.rule == "receive_autotuning")
        .map(|verdict| verdict.grade)
        .collect();
    assert!(window.len() == 1 && window[0] != AuditGrade::Unknown, "{text}");
    let archive = Archive::open(&file).expect("the archive");
    assert_eq!(archive.list(10).expect("a list").len(), 1);
}

#[test]
fn without_a_known_path_the_reference_is_named() {
    let folder = Folder::new("host_reference");
    let assert = longhaul()
        .args(["host", "--all", "--no-save", "--archive"])
        .arg(folder.file("archive.sqlite3"))
        .assert()
        .success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("no path is known"), "{text}");
    assert!(!folder.file("archive.sqlite3").exists());
}

#[test]
fn nothing_to_revert_is_said_and_no_failure() {
    let folder = Folder::new("host_revert");
    let revert = |options: &[&str]| {
        let assert = longhaul()
            .args(["host", "--revert", "--journal"])
            .arg(folder.file("journal.json"))
            .args(options)
            .assert()
            .success();
        String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
    };
    assert!(revert(&[]).starts_with("nothing to revert"));
    assert_eq!(revert(&["--json"]), "{\"reverted\":[]}\n");
}

#[test]
fn the_unfinished_journal_of_a_killed_process_is_removed_by_the_next_command() {
    let folder = Folder::new("host_unfinished");
    let unfinished = folder.file("journal.json.new");
    std::fs::write(&unfinished, "{").expect("write");
    let journal = folder.file("journal.json");
    longhaul().args(["host", "--revert", "--journal"]).arg(&journal).assert().success();
    assert!(!unfinished.exists());
}

#[test]
fn a_journal_that_is_none_is_named_and_left_alone() {
    let folder = Folder::new("host_damaged");
    let journal = folder.file("journal.json");
    std::fs::write(&journal, "{").expect("write");
    let assert = longhaul().args(["host", "--revert", "--journal"]).arg(&journal).assert().code(5);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("cannot read the journal"), "{text}");
    assert!(text.contains("\nhint: "), "{text}");
    assert!(journal.exists());
}

#[test]
fn options_that_need_each_other_say_so() {
    for options in [
        &["--rtt", "10ms"][..],
        &["--rate", "1G"],
        &["--prove", "far"],
        &["--apply", "--revert"],
        &["--apply", "--prove", "far", "--pairs", "1"],
    ] {
        longhaul().arg("host").args(options).assert().code(2);
    }
}
