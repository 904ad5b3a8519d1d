//! `longhaul report case`, `site`, `asymmetry` and `compare` on archives that the tests fill.

use crate::support::{Folder, fixture, golden, reported};
use longhaul_store::{Archive, history_store::IncomingRun};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A terminal's escape, markup, a cell's border and a mention.
const HOSTILE: &str = "evil\u{1b}[2J<script>alert(1)</script>|@all";

/// Runs of June 2003: the fixtures under other names, times and rates.
struct Story {
    archive: Archive,
    runs: u32,
}

impl Story {
    fn new(file: &Path) -> Story {
        Story { archive: Archive::open(file).expect("a new archive"), runs: 0 }
    }

    fn add(&mut self, mut report: Value, (day, hour): (u32, u32), far: &str) {
        self.runs += 1;
        let at = format!("2003-06-{day:02}T{hour:02}:00:00Z");
        report["run"]["id"] = json!(format!("200306{day:02}T{hour:02}0000Z-{:06x}", self.runs));
        report["run"]["started_at"] = json!(at);
        report["run"]["initiator"]["host"] = json!("slac");
        report["run"]["responder"]["host"] = json!(far);
        report["run"]["responder"]["address"] = json!("192.0.2.7");
        report["run"]["environment"] = json!("network");
        let run = IncomingRun::from_json(report.to_string(), 0).expect("a report");
        self.archive.append_runs(&[run]).expect("room for a run");
    }

    fn bulk(&mut self, when: (u32, u32), far: &str, (forward, bps): (bool, u64)) {
        let mut report: Value =
            serde_json::from_str(&fixture("la-geneva-9-streams.json")).expect("JSON");
        report["analysis"]["goodput_bps"] = json!(bps);
        if !forward {
            report["plan"]["direction"] = json!("reverse");
            report["observation"]["forward"] = json!(false);
        }
        self.add(report, when, far);
    }

    fn trace(&mut self, when: (u32, u32), far: &str, hops: &[&str]) {
        let mut report: Value =
            serde_json::from_str(&fixture("path-slac-cesnet-change.json")).expect("JSON");
        let hops: Vec<Value> = (1..)
            .zip(hops)
            .map(|(ttl, name): (u8, &&str)| {
                json!({"ttl": ttl, "sent": 3, "answers": [{
                    "address": format!("192.0.2.{}", name.bytes().map(u32::from).sum::<u32>() % 250),
                    "name": name, "rtts_ns": [u64::from(ttl) * 1_000_000], "kind": "time_exceeded",
                }]})
            })
            .collect();
        report["observation"]["route"]["hops"] = json!(hops);
        self.add(report, when, far);
    }
}

/// The change of 11 June 2003 to two far ends: one path falls, one does not.
fn june(file: &Path) {
    let mut story = Story::new(file);
    for hour in 0..8u32 {
        let wobble = u64::from(hour % 4) * 1_000_000;
        for (day, cesnet, via) in [(10, 250_000_000, "abilene"), (12, 150_000_000, "esnet")] {
            story.bulk((day, hour), "cesnet", (true, cesnet + wobble));
            story.bulk((day, hour), "uk", (true, 90_000_000 + wobble * 3));
            let route = ["gateway.slac", via, "geant", "cesnet"];
            story.trace((day, hour), "cesnet", &route);
        }
    }
}

fn filled(test: &str, fill: fn(&Path)) -> (Folder, PathBuf) {
    let folder = Folder::new(test);
    let file = folder.file("archive.sqlite3");
    fill(&file);
    (folder, file)
}

const CASE: [&str; 7] = ["case", "cesnet", "uk", "--before", "2003-06-10", "--after", "2003-06-12"];

#[test]
fn a_case_of_two_paths_reads_as_reviewed_in_every_form() {
    let (folder, archive) = filled("beside-case", june);
    let page = folder.file("case.html");
    let mut words = CASE.to_vec();
    words.extend(["-o", page.to_str().expect("UTF-8")]);
    let text = reported(&archive, &words, 0);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    golden("report-case.txt", &text);
    let mut words = CASE.to_vec();
    words.push("--markdown");
    golden("report-case.md", &reported(&archive, &words, 0));
    let html = fs::read_to_string(page).expect("a page");
    assert_eq!(html.matches("<figure>").count(), 3, "throughput of both, and round trips of one");
    for word in ["src=", "<script", "@import", "http-equiv=\"refresh"] {
        assert!(!html.contains(word), "{word}");
    }
    let mut words = CASE.to_vec();
    words.push("--json");
    let case: Value = serde_json::from_str(&reported(&archive, &words, 0)).expect("JSON");
    let goodput = &case["paths"][0]["changes"][0];
    assert_eq!(goodput["verdict"], "fell");
    assert_eq!(case["paths"][1]["changes"][0]["verdict"], "no_change_seen");
    let ranges = &case["paths"][0]["routes"][0]["change"]["ranges"];
    assert_eq!(ranges, &json!([{"here": [2, 2], "other": [2, 2]}]));
    assert!(case["paths"][1]["routes"].as_array().expect("a list").is_empty());
}

#[test]
fn a_period_without_runs_is_absent_and_never_zero() {
    let (_folder, archive) = filled("beside-absent", june);
    let words = ["case", "cesnet", "--before", "2003-06-01", "--after", "2003-06-12", "--json"];
    let case: Value = serde_json::from_str(&reported(&archive, &words, 0)).expect("JSON");
    let goodput = &case["paths"][0]["changes"][0];
    assert_eq!(goodput["verdict"], "not_measured");
    assert!(goodput.get("before").is_none() && goodput.get("change_ratio").is_none());
    let missing = case["paths"][0]["missing"].to_string();
    assert!(missing.contains("throughput: not measured in the earlier period"), "{missing}");
}

#[test]
fn a_case_of_single_runs_states_how_many_are_needed_and_no_change() {
    let (_folder, archive) = filled("beside-single", |file| {
        let mut story = Story::new(file);
        story.bulk((10, 1), "cesnet", (true, 10_000_000));
        story.bulk((12, 1), "cesnet", (true, 77_500_000));
    });
    let words = ["case", "cesnet", "--before", "2003-06-10", "--after", "2003-06-12"];
    let text = reported(&archive, &words, 0);
    let needed = "too few runs (1 and 1) to tell; at least 4 and 4 are needed";
    assert!(text.contains(needed) && !text.contains("+675 %"), "{text}");
    assert!(text.contains("Findings\nToo few runs (1 and 1) to tell"), "{text}");
}

#[test]
fn names_from_the_net_do_nothing_in_any_form() {
    let (folder, archive) = filled("beside-hostile", |file| {
        let mut story = Story::new(file);
        for hour in 0..5 {
            for day in [10, 12] {
                story.bulk((day, hour), HOSTILE, (true, 1_000_000 * u64::from(day)));
                story.bulk((day, hour), HOSTILE, (false, 1_000_000));
                story.trace((day, hour), HOSTILE, &["near", HOSTILE]);
            }
        }
    });
    let page = folder.file("page.html");
    let out = page.to_str().expect("UTF-8");
    // Names are sanitized where reports are read.
    let host = HOSTILE.replace('\u{1b}', "\u{fffd}");
    let case = ["case", &host, "--before", "2003-06-10", "--after", "2003-06-12", "-o", out];
    let asymmetry = ["asymmetry", "-o", out];
    let compare = ["compare", "@2003-06-10", "@2003-06-12", "-o", out];
    for words in [&case[..], &["site", "-o", out], &asymmetry, &compare] {
        let text = reported(&archive, words, 0);
        assert!(!text.contains('\u{1b}'), "{text}");
        let html = fs::read_to_string(&page).expect("a page");
        assert!(!html.contains("<script") && !html.contains('\u{1b}'), "{words:?}");
        let markdown = reported(&archive, &[words, &["--markdown"]].concat(), 0);
        let safe = |line: &str| !line.contains("<script") && !line.contains("@all");
        assert!(markdown.lines().all(safe), "{markdown}");
        assert!(!markdown.contains('\u{1b}'), "{markdown}");
    }
}

#[test]
fn the_site_and_the_asymmetry_read_as_reviewed() {
    let (_folder, archive) = filled("beside-site", |file| {
        let mut story = Story::new(file);
        for hour in 0..12u32 {
            let wobble = u64::from(hour % 5) * 1_000_000;
            story.bulk((10, hour), "daresbury", (true, 9_000_000 + wobble));
            story.bulk((10, hour), "daresbury", (false, 3_000_000));
        }
        story.trace((10, 1), "cesnet", &["gateway.slac", "geant", "cesnet"]);
    });
    let text = reported(&archive, &["site"], 0) + "\n" + &reported(&archive, &["asymmetry"], 0);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    golden("report-site-asymmetry.txt", &text);
    let site: Value =
        serde_json::from_str(&reported(&archive, &["site", "--json"], 0)).expect("JSON");
    let first = &site["paths"][0];
    assert_eq!(first["pair"]["to"], "cesnet");
    assert!(first.get("greatest_bps").is_none(), "never measured, so absent: {first}");
}

#[test]
fn a_comparison_fails_a_build_when_an_expectation_is_missed() {
    let (folder, archive) = filled("beside-compare", june);
    let sets = ["compare", "cesnet@2003-06-10", "cesnet@2003-06-12"];
    let with = |more: &[&'static str]| [&sets[..], more].concat();
    let text = reported(&archive, &sets, 0);
    assert!(text.contains("throughput slac > cesnet fell by 40 %"), "{text}");
    reported(&archive, &with(&["--expect", "change >= -50 %"]), 0);
    let missed = reported(&archive, &with(&["--expect", "change >= -5 %"]), 1);
    assert!(missed.contains("expected change >= -5 %; found -3"), "{missed}");
    reported(&archive, &with(&["--expect", "available.change >= -5 %"]), 1);
    // Two single runs, from files: they cannot tell, and need no archive.
    let mut files = Vec::new();
    for name in ["la-geneva-9-streams", "slac-daresbury-window"] {
        let file = folder.file(&format!("{name}.json"));
        fs::write(&file, fixture(&format!("{name}.json"))).expect("room for a file");
        files.push(file);
    }
    let none = folder.file("none.sqlite3");
    let words = ["compare", files[0].to_str().expect("UTF-8"), files[1].to_str().expect("UTF-8")];
    let text = reported(&none, &words, 0);
    assert!(text.contains("too few runs (1 and 1) to tell"), "{text}");
    assert!(!none.exists());
}

#[test]
fn what_cannot_be_understood_says_what_would_be() {
    let (folder, archive) = filled("beside-wrong", june);
    let broken = folder.file("broken.json");
    fs::write(&broken, "{\"schema\": 1").expect("room for a file");
    let broken = broken.to_str().expect("UTF-8");
    for (words, code, says) in [
        (&["case", "cesnet"][..], 2, "--before PERIOD --after PERIOD"),
        (&["case", "cesnet", "--before", "1h..2h", "--after", "now"], 2, "is before the start"),
        (&["case", "nobody", "--before", "2003-06-10", "--after", "2003-06-12"], 6, "nobody"),
        (&["case", "--event", "goodput-1"], 6, "cannot find event"),
        (&["site", "-o", "page.pdf"], 2, "ends in .html, .htm, .md"),
        (&["compare", "last", broken], 2, "cannot read reports"),
        (&["compare", "last", "nobody"], 6, "cannot find runs for nobody"),
        (&["compare", "last", "last", "--expect", "change"], 2, "expected a quantity"),
        (&["asymmetry", "uk"], 0, ""),
    ] {
        let text = reported(&archive, words, code);
        assert!(text.contains(says), "{words:?}: {text}");
    }
    let none = folder.file("none.sqlite3");
    assert!(reported(&none, &["site"], 6).contains("cannot find the archive"));
}
