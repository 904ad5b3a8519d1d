//! The help as users see it, and what holds for all options.

use crate::support::{golden, longhaul};

/// Standard output of a call that must succeed.
fn said(arguments: &[&str]) -> String {
    let assert = longhaul().args(arguments).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

#[test]
fn the_help_of_every_command_is_as_reviewed() {
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help-serve", &["serve", "--help"]),
        ("help-test-short", &["test", "-h"]),
        ("help-test", &["test", "--help"]),
        ("help-host", &["host", "--help"]),
        ("help-predict", &["predict", "--help"]),
        ("help-copy", &["copy", "--help"]),
        ("help-lab", &["lab", "--help"]),
        ("help-lab-run", &["lab", "run", "--help"]),
        ("help-capture", &["capture", "--help"]),
        ("help-import", &["import", "--help"]),
        ("help-record", &["record", "--help"]),
        ("help-record-check", &["record", "check", "--help"]),
        ("help-report", &["report", "--help"]),
        ("help-report-show", &["report", "show", "--help"]),
        ("help-report-routes", &["report", "routes", "--help"]),
    ] {
        let text = said(arguments);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
        golden(&format!("{name}.txt"), &text);
    }
}

#[test]
fn the_version_is_one_line() {
    let version = format!("longhaul {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(said(&["--version"]), version);
    assert_eq!(said(&["-V"]), version);
}

#[test]
fn lab_paths_are_listed_and_shown_as_text_and_json() {
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
    let shown = said(&["lab", "show", "la-geneva", "--set", "mtu=1500", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["forward"]["path_mtu_bytes"], 1500);
    assert_eq!(shown["hops"].as_array().expect("hops").len(), 9);
}

#[test]
fn a_path_that_begins_later_is_shown_as_it_is_then() {
    let capacity = |more: &[&str]| {
        let shown = said(&[&["lab", "show", "slac-cesnet", "--json"], more].concat());
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        (
            shown["forward"]["capacity_bps"].clone(),
            shown["rtt_us"].clone(),
        )
    };
    let (before, rtt_before) = capacity(&[]);
    let (after, rtt_after) = capacity(&["--begin-at", "61s"]);
    assert_eq!(
        (before.as_u64(), after.as_u64()),
        (Some(400_000_000), Some(622_000_000))
    );
    assert_eq!(rtt_before, rtt_after);
    let page = said(&["lab", "show", "slac-cesnet", "--begin-at", "61s"]);
    assert!(page.contains("begins at      61 s"), "{page}");
}
