//! `longhaul explain`: snapshots of ss, transfers of this host, and what is refused.

use crate::support::{Folder, longhaul};
use std::path::PathBuf;

fn snapshots() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/flows/ss-rclone.txt")
}

#[test]
fn snapshots_of_ss_are_explained_and_archived() {
    let folder = Folder::new("explain-ss");
    let archive = folder.file("archive.sqlite3");
    let explain = |what: &str| {
        let mut command = longhaul();
        command.args(["explain", "--from-ss"]).arg(snapshots()).arg(what);
        command.arg("--archive").arg(&archive).arg("-q").assert().success()
    };
    for what in ["all", "rclone", ":2222", "10.77.0.2"] {
        let shown = explain(what).get_output().stdout.clone();
        let shown = String::from_utf8(shown).expect("UTF-8");
        assert!(shown.contains("limited by the application"), "{what}: {shown}");
        assert!(shown.contains("--transfers 16"), "{what}: {shown}");
    }
    let mut list = longhaul();
    let listed = list.args(["report", "list", "--kind", "flows", "--archive"]).arg(&archive);
    let listed = listed.assert().success().get_output().stdout.clone();
    assert_eq!(String::from_utf8_lossy(&listed).matches("10.77.0.2").count(), 4);
}

#[test]
fn one_snapshot_and_unknown_names_are_refused_with_the_reason() {
    let folder = Folder::new("explain-refused");
    let text = std::fs::read_to_string(snapshots()).expect("the fixture");
    let second = text.match_indices("State").nth(1).expect("several snapshots").0;
    let file = folder.file("one.txt");
    std::fs::write(&file, &text[..second]).expect("written");
    let refuse = |arguments: &[&str]| {
        let mut command = longhaul();
        let assert = command.arg("explain").args(arguments).arg("--no-save").assert().code(2);
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    let one = refuse(&["--from-ss", file.to_str().expect("UTF-8")]);
    assert!(one.contains("there is one snapshot"), "{one}");
    let nobody = refuse(&["no-such-program.invalid"]);
    assert!(nobody.contains("no process has that name"), "{nobody}");
    let number = refuse(&["4194305"]);
    assert!(number.contains("no process of that number"), "{number}");
}

#[test]
fn a_host_without_matching_transfers_is_a_result() {
    // An agent watches programs that do not always run.
    for what in [&[":1"][..], &["--allow-none", "--", "no-such-program.invalid"]] {
        let mut command = longhaul();
        let explained = command.args(["explain", "--for", "1s", "--no-save"]).args(what);
        let shown = explained.assert().success().get_output().stdout.clone();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(shown.contains("none: no connection matches"), "{shown}");
    }
}

#[test]
fn a_connection_that_moved_too_little_is_shown_with_its_bytes_and_the_minimum() {
    let capture = "../../fixtures/captures/ssh.pcap";
    let mut command = longhaul();
    let explained = command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let explained = explained.args(["capture", "explain", "--no-save", capture]);
    let shown = explained.assert().success().get_output().stdout.clone();
    let shown = String::from_utf8(shown).expect("UTF-8");
    let words: Vec<&str> = shown.split_whitespace().collect();
    let wanted = "1 matching connection moved at most 5.159 KiB of payload in one direction; \
                  a limit is named from 16 KiB on";
    assert!(words.join(" ").contains(wanted), "{shown}");
}
