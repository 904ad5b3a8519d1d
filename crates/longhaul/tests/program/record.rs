//! `longhaul record check`: claims in, verdicts out, nonsense refused.

use crate::support::{Folder, golden, longhaul};
use assert_cmd::assert::Assert;

const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/records");

fn check(arguments: &[&str]) -> Assert {
    let mut command = longhaul();
    command.args(["record", "check"]).args(arguments).assert()
}

fn fixture(name: &str) -> String {
    format!("{RECORDS}/{name}")
}

#[test]
fn the_published_claims_are_checked_as_reviewed() {
    for name in ["caltech-2004", "sunet-2004"] {
        let assert = check(&[&fixture(&format!("{name}.toml"))]).code(1);
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
        golden(&format!("record-check-{name}.txt"), &text);
    }
    check(&[&fixture("history.toml")]).success();
}

#[test]
fn json_has_the_claim_beside_every_check() {
    let assert = check(&[&fixture("sc2002.toml"), &fixture("history.toml"), "--json"]).code(1);
    let json: serde_json::Value =
        serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(14));
    assert_eq!(json[0]["schema"], "longhaul.claim-check/1");
    assert_eq!(json[0]["claim"]["mark"]["value"], "9891.60 Tb·m/s");
    let checks = json[0]["checks"].as_array().expect("checks");
    let mark = checks.iter().find(|it| it["check"] == "mark").expect("one");
    assert_eq!(mark["verdict"], "differs");
    assert!(mark["remedy"].as_str().is_some_and(|it| it.contains("km")));
}

#[test]
fn what_is_no_claim_ends_with_the_file_the_reason_and_what_to_do() {
    let folder = Folder::new("record_wrong");
    for (name, text, why) in [
        ("rate.toml", "name = \"x\"\n[[transfers]]\nrate = \"fast\"", "transfers.1.rate"),
        ("key.toml", "name = \"x\"\nspeed = 3", "speed"),
        ("escape.toml", "name = \"\\u001b]0;x\\u0007\"", "control characters"),
        ("cut.json", "{\"name\": ", "EOF"),
    ] {
        let file = folder.file(name);
        std::fs::write(&file, text).expect("written");
        let assert = check(&[file.to_str().expect("UTF-8")]).code(2);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        for part in [name, why, "hint:"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    check(&["/nowhere/claim.toml"]).code(2);
}
