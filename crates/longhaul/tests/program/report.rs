//! Reports as people and programs get them: colours, long tables, lists, and the archive behind them.

use crate::support::{Folder, fixture, golden, longhaul};
use longhaul_model::report::v1::ThroughputReport;
use longhaul_store::Archive;
use std::path::Path;

const FIXTURES: [&str; 3] = ["la-geneva-9-streams", "slac-daresbury-window", "udp-reverse"];

fn report(name: &str) -> ThroughputReport {
    serde_json::from_str(&fixture(&format!("{name}.json"))).expect("the fixture is a report")
}

fn archive_with_fixtures(path: &Path) {
    let mut archive = Archive::open(path).expect("a new archive");
    for name in FIXTURES {
        archive.append(&report(name)).expect("append");
    }
}

/// Standard output of `longhaul report …` on an archive that holds the fixtures.
fn shown(test: &str, arguments: &[&str]) -> String {
    let folder = Folder::new(test);
    let file = folder.file("archive.sqlite3");
    archive_with_fixtures(&file);
    let output = longhaul()
        .arg("report")
        .args(arguments)
        .arg("--archive")
        .arg(&file)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    String::from_utf8(output).expect("UTF-8")
}

#[test]
fn colour_comes_when_it_is_asked_for_and_changes_no_word() {
    let folder = Folder::new("coloured");
    let file = folder.file("archive.sqlite3");
    archive_with_fixtures(&file);
    let shown = |variable: &str| {
        let mut command = longhaul();
        let id = report("slac-daresbury-window").run.id;
        command.args(["report", "show", &id, "--archive"]).arg(&file).env(variable, "1");
        let assert = command.assert().success();
        String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
    };
    let (plain, coloured) = (shown("NO_COLOR"), shown("CLICOLOR_FORCE"));
    assert!(coloured.contains('\u{1b}') && !plain.contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
}

#[test]
fn many_streams_shorten_the_table_and_say_so() {
    let folder = Folder::new("many");
    let mut many = report("la-geneva-9-streams");
    let row = many.analysis.streams[0].clone();
    many.analysis.streams = (0..128)
        .map(|index| longhaul_model::report::v1::analysis::StreamTotals { index, ..row.clone() })
        .collect();
    let file = folder.file("archive.sqlite3");
    Archive::open(&file).unwrap().append(&many).unwrap();
    let assert =
        longhaul().args(["report", "show", "last", "--archive"]).arg(&file).assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("113 more streams; --json lists all"), "{text}");
    assert!(!text.contains("\n    15"), "{text}");
}

#[test]
fn the_list_is_newest_first_as_text_and_as_json() {
    golden("report-list.txt", &shown("list", &["list"]));
    let json = shown("list_json", &["list", "--json", "--limit", "2"]);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let ids: Vec<_> = value.as_array().unwrap().iter().map(|e| &e["id"]).collect();
    assert_eq!(ids, ["20261121T221530Z-0c9d55", "20261121T220401Z-b21e07"]);
    assert_eq!(value[1]["limited_by"], "receive_window");
}

#[test]
fn an_archive_that_is_not_there_or_not_whole_ends_with_6() {
    let folder = Folder::new("no_archive");
    let file = folder.file("archive.sqlite3");
    let list = longhaul().args(["report", "list", "--archive"]).arg(&file).assert().code(0);
    let text = String::from_utf8_lossy(&list.get_output().stdout).into_owned();
    assert!(text.starts_with("no runs in "), "{text}");
    let show = |id: &str, message: &str| {
        let show = longhaul().args(["report", "show", id, "--archive"]).arg(&file).assert().code(6);
        let text = String::from_utf8_lossy(&show.get_output().stderr).into_owned();
        assert!(text.contains(message), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
    };
    show("last", "error: cannot find the archive ");
    archive_with_fixtures(&file);
    show("1999", "error: no run matches `1999`");
    show("2026", "error: `2026` matches 3 runs, for example 20261121T215612Z-4f3a9c");
    std::fs::write(&file, vec![b'x'; 8192]).expect("damage the file");
    show("last", "is damaged or not an archive");
}

#[test]
fn a_reader_that_stops_reading_is_not_an_error() {
    let folder = Folder::new("pipe");
    let file = folder.file("archive.sqlite3");
    archive_with_fixtures(&file);
    // The pipe's reader is gone before the first byte, and the JSON is larger than a pipe.
    let script = "exec 3>&1; { \"$0\" report show 20261121T215612Z --json --archive \"$1\"; \
                  echo \"code $?\" >&3; } | exec true";
    let output = std::process::Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_longhaul")])
        .arg(&file)
        .output()
        .expect("start bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "code 0\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
