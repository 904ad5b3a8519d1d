//! `longhaul record make` and `record verify`: a bundle of an archived run, and what is found when
//! somebody touched it.

use crate::support::{Folder, fixture, longhaul};
use assert_cmd::assert::Assert;
use longhaul_model::report::v1::{PathReport, ThroughputReport};
use longhaul_store::Archive;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const WAY: &str = "stops = [\"Los Angeles (LAX)\", \"Chicago (ORD)\", \"Geneva\"]\n\
                   [about]\nname = \"<script>alert(1)</script> & co\"\n";
/// Names of hosts and hops are whatever their owners made them.
const HOSTILE: &str = "<img src=x onerror=alert(1)>\u{1b}[2J../../x";

/// An archive with a run and a look at its path, and a legs file.
fn stage(folder: &Folder) -> Vec<String> {
    let mut run: ThroughputReport =
        serde_json::from_str(&fixture("la-geneva-9-streams.json")).expect("a run");
    let mut path: PathReport =
        serde_json::from_str(&fixture("path-sanjose-lulea.json")).expect("a path");
    HOSTILE.clone_into(&mut run.run.initiator.host);
    HOSTILE.clone_into(&mut path.run.initiator.host);
    path.run.responder.clone_from(&run.run.responder);
    path.run.started_at.clone_from(&run.run.started_at);
    let route = path.observation.route.as_mut().expect("a route");
    route.hops[1].answers[0].name = Some(HOSTILE.to_owned());
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("a new archive");
    archive.append(&path).expect("append");
    archive.append(&run).expect("append");
    fs::write(folder.file("way.toml"), WAY).expect("written");
    [
        "record",
        "make",
        "--run",
        &run.run.id,
        "--archive",
        text(&file),
        "--legs",
        text(&folder.file("way.toml")),
    ]
    .map(str::to_owned)
    .to_vec()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub fn said(assert: &Assert) -> (String, String) {
    let output = assert.get_output();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn made(folder: &Folder, more: &[&str]) -> PathBuf {
    let words = stage(folder);
    let place = folder.file("bundle");
    let mut command = longhaul();
    command.args(words).arg("--out").arg(&place).args(more);
    command.assert().success();
    place
}

pub fn verified(place: &Path, more: &[&str]) -> Assert {
    let mut command = longhaul();
    command.args(["record", "verify"]).arg(place).args(more).assert()
}

fn files(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).expect("a bundle");
    let mut files: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    files.sort();
    files
}

pub fn record_of(place: &Path) -> Value {
    let record = fs::read_to_string(place.join("record.json")).expect("a record");
    serde_json::from_str(&record).expect("JSON")
}

/// Made again here from what the record was made of; returns the sum of its legs in metres.
pub fn mark_is_geodesics_by_goodput(record: &Value) -> f64 {
    let (seen, found) = (&record["observation"], &record["analysis"]);
    let number = |of: &Value| of.as_f64().expect("a number");
    let legs = found["legs"].as_array().expect("legs");
    let metres: f64 = legs.iter().map(|it| number(&it["length_mm"]) / 1e3).sum();
    let seconds = number(&seen["elapsed_us"]) / 1e6;
    let product = number(&seen["received_bytes"]) * 8.0 / seconds * metres;
    let mark = number(&found["mark_bit_m_per_s"]);
    assert!((mark / product - 1.0).abs() < 1e-12, "{mark} {product}");
    metres
}

#[test]
fn a_bundle_of_an_archived_run_is_whole_and_its_mark_is_geodesics_by_goodput() {
    let folder = Folder::new("bundle_whole");
    let place = made(&folder, &[]);
    let names: Vec<String> = files(&place)
        .iter()
        .map(|it| it.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    for name in [
        "commands.txt",
        "configuration-initiator.txt",
        "configuration-responder.txt",
        "course.svg",
        "index.html",
        "manifest.json",
        "output-initiator.txt",
        "output-responder.txt",
        "path.json",
        "path.txt",
        "record.json",
        "throughput.json",
    ] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    let record = record_of(&place);
    let metres = mark_is_geodesics_by_goodput(&record);
    assert!((metres / 9_876e3 - 1.0).abs() < 0.01, "{metres}");
    let found = &record["analysis"];
    assert_eq!(found["class"], "ipv4_multiple_streams");
    verified(&place, &[]).success();
    let json = verified(&place, &["--json"]).success();
    let json: Value = serde_json::from_str(&said(&json).0).expect("JSON");
    assert_eq!(json["sound"], true);
    assert_eq!(json["differs"].as_array().map(Vec::len), Some(0));
}

#[test]
fn the_page_is_self_contained_and_hostile_names_are_text_on_it() {
    let folder = Folder::new("bundle_page");
    let place = made(&folder, &[]);
    let page = fs::read_to_string(place.join("index.html")).expect("a page");
    for markup in ["<script", "<img", "\u{1b}", "src=\"", "href=\"http"] {
        assert!(!page.contains(markup), "{markup:?}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; co"));
    assert!(page.contains("&lt;img src=x"), "the hop's name is there");
    assert!(page.contains("<svg"), "the drawings are on the page");
    let svg = fs::read_to_string(place.join("course.svg")).expect("a drawing");
    let parsed = roxmltree::Document::parse(&svg).expect("XML");
    assert!(parsed.descendants().all(|it| it.tag_name().name() != "script"));
}

#[test]
fn the_limits_of_a_record_are_above_its_score() {
    let folder = Folder::new("bundle_limits");
    let place = made(&folder, &[]);
    let page = fs::read_to_string(place.join("index.html")).expect("a page");
    let place_of = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(place_of("[stream_error]") < place_of("<dt>Score</dt>"));
}

#[test]
fn one_flipped_byte_in_any_file_is_found_and_named() {
    let folder = Folder::new("bundle_flipped");
    let place = made(&folder, &[]);
    for file in files(&place) {
        let sound = fs::read(&file).expect("a file");
        for at in [0, sound.len() / 2, sound.len() - 1] {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            fs::write(&file, &flipped).expect("written");
            let name = file.file_name().expect("a name").to_string_lossy();
            // A manifest that lost a letter of a text is still one: its other files are looked at.
            let of_manifest = name == "manifest.json";
            let assert = if of_manifest && harmless(&sound, &flipped) {
                continue;
            } else {
                verified(&place, &[]).code(1)
            };
            let (out, _) = said(&assert);
            assert!(of_manifest || out.contains(&*name), "{name}: {out}");
        }
        fs::write(&file, &sound).expect("written");
    }
    verified(&place, &[]).success();
}

/// Without a signature nothing speaks for the words of the manifest, or for its white space.
fn harmless(sound: &[u8], flipped: &[u8]) -> bool {
    let figures = |bytes: &[u8]| -> Option<Vec<Value>> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let files = value["files"].as_array()?.clone();
        let kept = files.into_iter().map(|mut file| {
            file["about"] = Value::Null;
            file
        });
        Some(kept.collect())
    };
    figures(sound).is_some() && figures(sound) == figures(flipped)
}

#[test]
fn what_is_added_missing_a_link_or_cut_is_found() {
    let folder = Folder::new("bundle_touched");
    let place = made(&folder, &[]);
    let differs = |what: &str| {
        let (out, _) = said(&verified(&place, &[]).code(1));
        assert!(out.contains(what), "{what}: {out}");
    };
    fs::write(place.join("more.txt"), "x").expect("written");
    differs("more.txt: not in the manifest");
    fs::remove_file(place.join("more.txt")).expect("removed");
    let route = place.join("path.txt");
    let kept = fs::read(&route).expect("a file");
    fs::remove_file(&route).expect("removed");
    differs("path.txt: missing");
    symlink("/etc/hostname", &route).expect("linked");
    differs("path.txt: a symbolic link");
    fs::remove_file(&route).expect("removed");
    fs::create_dir(&route).expect("made");
    differs("path.txt: not a regular file");
    fs::remove_dir(&route).expect("removed");
    fs::write(&route, &kept[..kept.len() / 2]).expect("written");
    differs("path.txt: ");
    fs::write(&route, &kept).expect("written");
    verified(&place, &[]).success();
    let manifest = place.join("manifest.json");
    let listed = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, listed.replace("path.txt", "../way.toml")).expect("written");
    differs("which is not a file of a");
    fs::remove_file(&manifest).expect("removed");
    differs("manifest.json: missing");
    let (_, error) = said(&verified(&folder.file("nowhere"), &[]).code(2));
    assert!(error.contains("hint:"), "{error}");
}

#[test]
fn a_mark_that_was_raised_with_its_digest_is_found_by_making_it_again() {
    let folder = Folder::new("bundle_raised");
    let place = made(&folder, &[]);
    let record = fs::read_to_string(place.join("record.json")).expect("a record");
    let mut value: Value = serde_json::from_str(&record).expect("JSON");
    let mark = value["analysis"]["mark_bit_m_per_s"].as_f64().expect("a mark");
    value["analysis"]["mark_bit_m_per_s"] = (mark * 1.1).into();
    value["observation"]["received_bytes"] = 1.into();
    let raised = serde_json::to_string_pretty(&value).expect("JSON");
    fs::write(place.join("record.json"), &raised).expect("written");
    let listed = fs::read_to_string(place.join("manifest.json")).expect("a manifest");
    let mut manifest: Value = serde_json::from_str(&listed).expect("JSON");
    let digest = ring::digest::digest(&ring::digest::SHA256, raised.as_bytes());
    let hex = digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a text takes everything");
        hex
    });
    for file in manifest["files"].as_array_mut().expect("files") {
        if file["name"] == "record.json" {
            file["sha256"] = hex.clone().into();
            file["bytes"] = raised.len().into();
        }
    }
    fs::write(place.join("manifest.json"), manifest.to_string()).expect("written");
    let (out, _) = said(&verified(&place, &[]).code(1));
    for what in ["received_bytes", "mark_bit_m_per_s"] {
        assert!(out.contains(what), "{what}: {out}");
    }
}

#[test]
fn a_signature_is_of_one_key_and_of_every_byte_of_the_manifest() {
    let folder = Folder::new("bundle_signed");
    let key = folder.file("key.pem");
    let printed = longhaul().args(["record", "key"]).arg(&key).assert();
    let public = said(&printed.success()).0.trim().to_owned();
    longhaul().args(["record", "key"]).arg(&key).assert().code(2);
    let place = made(&folder, &["--sign", text(&key)]);
    let (out, _) = said(&verified(&place, &["--key", &public]).success());
    assert!(out.contains(&public), "{out}");
    let other = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    verified(&place, &["--key", other]).code(1);
    verified(&place, &["--key", "no-such-key"]).code(2);
    let manifest = place.join("manifest.json");
    let mut listed = fs::read(&manifest).expect("a manifest");
    listed.push(b'\n');
    fs::write(&manifest, &listed).expect("written");
    verified(&place, &[]).code(1);
    listed.pop();
    fs::write(&manifest, &listed).expect("written");
    verified(&place, &[]).success();
    fs::remove_file(place.join("manifest.json.sig")).expect("removed");
    verified(&place, &[]).code(1);
}

#[test]
fn nothing_is_written_over_and_bad_input_leaves_nothing_behind() {
    let folder = Folder::new("bundle_refused");
    let words = stage(&folder);
    let place = folder.file("mine");
    fs::create_dir(&place).expect("made");
    fs::write(place.join("thesis.txt"), "mine").expect("written");
    let make = |more: &[&str]| {
        let mut command = longhaul();
        command.current_dir(&folder.0).args(&words).args(more);
        said(&command.assert().code(2)).1
    };
    assert!(make(&["--out", text(&place)]).contains("not empty"));
    assert!(make(&["--out", "nowhere/bundle"]).contains("does not exist"));
    assert!(make(&["--sign", "nowhere.pem"]).contains("record key FILE"));
    assert!(make(&["--attach", "nowhere.txt"]).contains("nowhere.txt"));
    assert!(make(&["--rules", "guinness"]).contains("internet2-lsr"));
    fs::write(folder.file("way.toml"), "stops = [\"Geneva\", \"London\"]").expect("written");
    assert!(make(&[]).contains("LHR"));
    assert_eq!(files(&place).len(), 1);
    let left: Vec<PathBuf> = files(&folder.0)
        .into_iter()
        .filter(|it| text(it).contains(".part") || text(it).contains("record-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn attached_files_come_under_names_of_ours() {
    let folder = Folder::new("bundle_attached");
    let odd = folder.file("far end's <b>log.LOG");
    fs::write(&odd, "what the far end printed").expect("written");
    let place = made(&folder, &["--attach", text(&odd)]);
    let copy = fs::read_to_string(place.join("attached-1.log")).expect("a copy");
    assert_eq!(copy, "what the far end printed");
    let page = fs::read_to_string(place.join("index.html")).expect("a page");
    assert!(page.contains("&lt;b&gt;log.LOG"));
    verified(&place, &[]).success();
}
