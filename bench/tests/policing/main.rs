//! Policers in captures of known truth: those of fixtures/policing, whose names are their labels.
//!
//! A policer whose bucket size the router chose shows no queue and drops a tenth of the packets; it
//! is printed, and may be found or not.

mod capture_label;

use capture_label::{CaptureLabel, PathLimitKind};
use longhaul_analysis::capture_analysis::CaptureAnalyser;
use longhaul_capture::capture_reader::CaptureReader;
use longhaul_model::report::v1::capture::CapturedPolicer;
use std::fs::File;
use std::path::{Path, PathBuf};
use xtask::checkout;

/// Relative to the root of the checkout.
const DATA: &str = "fixtures/policing";
/// The minimum share of policed captures with one stream in which the policer must be found.
const FOUND_MIN: f64 = 0.8;

/// A capture with the policer that was found in it.
struct JudgedCapture {
    label: CaptureLabel,
    found: Option<CapturedPolicer>,
}

#[test]
fn policers_are_found_in_captures_and_nowhere_else() {
    let judged: Vec<JudgedCapture> =
        list_captures().iter().map(|file| judge_capture(file)).collect();
    assert_eq!(judged.len(), 22);
    for one in &judged {
        println!("{}: {}", one.label.words, describe_policer(one.found));
    }
    let of_kind = |kind| judged.iter().filter(move |one| one.label.kind == kind);
    for one in of_kind(PathLimitKind::Other) {
        assert!(one.found.is_none(), "{}: a policer where there is none", one.label.words);
    }
    let single: Vec<&JudgedCapture> =
        of_kind(PathLimitKind::Policer).filter(|one| one.label.streams == 1).collect();
    let found = single.iter().filter(|one| one.found.is_some()).count();
    assert!(found as f64 >= FOUND_MIN * single.len() as f64, "{found} of {}", single.len());
}

fn list_captures() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(checkout::find_root().join(DATA)).expect("the fixtures");
    let paths = folder.map(|entry| entry.expect("an entry").path());
    let mut captures: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "xz")).collect();
    captures.sort();
    captures
}

fn judge_capture(file: &Path) -> JudgedCapture {
    let name = file.file_name().expect("a name").to_string_lossy();
    let mut reader = CaptureReader::open(File::open(file).expect("a file")).expect("a capture");
    let mut analyser = CaptureAnalyser::default();
    while let Some(record) = reader.next_packet() {
        record.decode().iter().for_each(|packet| analyser.add_packet(packet));
    }
    let found = analyser.finish().flows.iter().find_map(|flow| flow.policer);
    JudgedCapture { label: CaptureLabel::read(&name), found }
}

fn describe_policer(found: Option<CapturedPolicer>) -> String {
    let Some(found) = found else { return "no policer".to_owned() };
    let more = if found.is_lower_bound { " or more" } else { "" };
    let burst = found.burst_bytes.map_or("no burst".to_owned(), |it| format!("{} kB", it / 1000));
    format!("{:.2} Mbit/s{more}, {burst}", found.rate_bps as f64 / 1e6)
}
