//! The help as users see it, and what holds for all options.

use crate::support::{Folder, longhaul};
use std::fs;

/// Standard output of a call that must succeed.
fn said(arguments: &[&str]) -> String {
    let assert = longhaul().args(arguments).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

#[test]
fn the_version_is_one_line_and_names_commit_target_and_page_when_asked_at_length() {
    let version = format!("longhaul {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(said(&["-V"]), version);
    let long = said(&["--version"]);
    let lines: Vec<_> = long.lines().map(|line| line.split_once(' ')).collect();
    let [
        Some(("longhaul", _)),
        Some(("commit", _)),
        Some(("target", target)),
        Some(("page", page)),
    ] = lines[..]
    else {
        panic!("{long}");
    };
    assert!(long.starts_with(&version), "{long}");
    assert!(target.contains("linux"), "{long}");
    assert_eq!(page.trim().len(), 16, "{long}");
}

#[test]
fn completions_know_commands_and_options() {
    for (shell, option) in [("bash", "--window"), ("zsh", "--window"), ("fish", "-l window")] {
        let script = said(&["completions", shell]);
        assert!(script.contains("available"), "{shell}");
        assert!(script.contains(option), "{shell}");
        assert!(script.contains("server-max-duration"), "{shell} lacks the options of iperf3");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new("manual");
    let out = folder.file("man1");
    said(&["man", "--out", out.to_str().expect("UTF-8")]);
    for name in ["longhaul", "longhaul-test", "longhaul-iperf3", "longhaul-report-case"] {
        let page = fs::read_to_string(out.join(format!("{name}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
}

#[test]
fn lab_paths_are_listed_as_text_and_json_and_shown() {
    let list = said(&["lab", "list"]);
    let json = said(&["lab", "list", "--json"]);
    let paths: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let keys: Vec<&str> = paths
        .as_array()
        .expect("a list")
        .iter()
        .map(|path| path["key"].as_str().expect("a key"))
        .collect();
    let shipped = [
        "la-geneva",
        "sanjose-lulea",
        "slac-sdsc",
        "slac-daresbury",
        "slac-cesnet",
        "slac-in2p3",
        "slac-upgrade",
    ];
    for key in shipped {
        assert!(keys.contains(&key), "{keys:?}");
        assert!(list.contains(key), "{list}");
    }
    assert!(said(&["lab", "show", "la-geneva"]).contains("Geneva"));
    let shown = said(&["lab", "show", "la-geneva", "--set", "mtu=1500"]);
    assert!(shown.contains("MTU            1500 bytes"), "{shown}");
}

#[test]
fn a_path_that_begins_later_is_shown_as_it_is_then() {
    let shown = |more: &[&str]| said(&[&["lab", "show", "slac-cesnet"], more].concat());
    let before = shown(&[]);
    let after = shown(&["--begin-at", "61s"]);
    assert!(before.contains("400 Mbit/s") && !before.contains("begins at"), "{before}");
    assert!(after.contains("622 Mbit/s"), "{after}");
    assert!(after.contains("begins at      61 s"), "{after}");
}
