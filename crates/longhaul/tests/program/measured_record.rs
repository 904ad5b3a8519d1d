//! `longhaul record` on a path of the lab: measured, put into a bundle, verified, damaged.

use crate::bundle::{mark_is_geodesics_by_goodput, record_of, said, text, verified};
use crate::support::{Folder, longhaul};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// What is said of a rule of the record.
fn verdict<'a>(record: &'a Value, rule: &str) -> &'a Value {
    let checks = record["analysis"]["checks"].as_array().expect("rules");
    let found = checks.iter().find(|it| {
        let text = it["rule"].as_str();
        text.is_some_and(|text| text.contains(rule))
    });
    &found.expect("a rule")["verdict"]
}

/// Measured in a path of the lab: its folder, and the archive.
fn measured(folder: &Folder) -> (PathBuf, PathBuf) {
    let way = folder.file("way.toml");
    fs::write(&way, "stops = [\"San Francisco (SFO)\", \"San Diego (SAN)\"]\n").expect("written");
    let (place, archive) = (folder.file("bundle"), folder.file("archive.sqlite3"));
    let mut command = longhaul();
    command
        .args(["lab", "run", "slac-sdsc", "--", "longhaul", "record", "far"])
        .args(["-n", "2M", "-P", "2", "--legs", text(&way), "--out", text(&place)])
        .args(["--capture", text(&folder.file("run.pcapng"))])
        .args(["--archive", text(&archive)]);
    command.assert().success();
    (place, archive)
}

#[test]
fn a_record_measured_on_a_path_of_the_lab_has_all_the_evidence_of_both_ends() {
    let folder = Folder::new("bundle_measured");
    let (place, archive) = measured(&folder);
    let record = record_of(&place);
    let metres = mark_is_geodesics_by_goodput(&record);
    assert!((metres / 719.7e3 - 1.0).abs() < 0.01, "{metres}");
    assert_eq!(verdict(&record, "packets do not all carry"), "holds");
    assert_eq!(verdict(&record, "one host sends"), "fails", "it is one machine");
    let read = |name: &str| fs::read_to_string(place.join(name)).expect(name);
    let commands = read("commands.txt");
    for command in ["longhaul record far -n 2M -P 2 --legs", "longhaul serve"] {
        assert!(commands.contains(command), "{commands}");
    }
    assert!(read("output-responder.txt").contains("transferred "));
    assert!(read("capture-responder.txt").contains("window scale"));
    assert!(
        read("index.html").contains("Analysis and first packets of the capture at the responder")
    );
    let manifest: Value = serde_json::from_str(&read("manifest.json")).expect("JSON");
    let listed = manifest["files"].as_array().expect("files");
    assert!(listed.iter().any(|it| it["name"] == "capture-initiator.pcapng"));
    verified(&place, &[]).success();
    let capture = place.join("capture-responder.pcapng");
    let mut flipped = fs::read(&capture).expect("a capture");
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    fs::write(&capture, flipped).expect("written");
    let (told, _) = said(&verified(&place, &[]).code(1));
    assert!(told.contains("capture-responder.pcapng"), "{told}");
    let again = folder.file("again");
    let mut make = longhaul();
    make.args(["record", "make", "--run", "last", "--archive", text(&archive)]);
    make.arg("--out").arg(&again).assert().success();
    let record = record_of(&again);
    assert_eq!(verdict(&record, "one host sends"), "fails", "still one machine");
    let capture = verdict(&record, "packets do not all carry");
    assert_eq!(capture, "cannot_tell", "there is no capture now");
}
