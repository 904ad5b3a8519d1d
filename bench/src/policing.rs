//! Tests the policer detector on captures of known truth.
//!
//! - [`labelled_capture`]: the packets of a capture's sender
//! - [`capture_label`]: the truth, from the file name
//!
//! Wrong when: a label is wrong. A policer without its own bucket (`PCIR` alone) shows no queue and
//! drops a tenth of the packets; it is shown, but not part of the gates.

mod capture_label;
mod labelled_capture;

use super::markdown_table::MarkdownTable;
use crate::BenchOutcome;
use capture_label::{CaptureLabel, PathLimitKind};
use longhaul_analysis::limit::policer_fit::packet_replay::{self, PacketPolicerFit};
use std::path::{Path, PathBuf};
use xtask::checkout;

/// Relative to the root of the checkout.
const DATA: &str = "fixtures/policing";
/// The minimum share of policed captures with one stream that must be found.
const FOUND_MIN: f64 = 0.8;
const MAX_FILES: usize = 1000;

struct JudgedCapture {
    label: CaptureLabel,
    found: Result<Option<PacketPolicerFit>, String>,
}

/// Returns the table, and a sentence for every missed gate; `data` replaces the fixtures.
pub fn judge_captures(data: Option<&Path>, only: &str) -> Result<BenchOutcome, String> {
    let folder = data.map_or_else(|| checkout::find_root().join(DATA), Path::to_path_buf);
    let mut judged = Vec::new();
    for file in list_captures(&folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.contains(only) {
            judged.push(JudgedCapture {
                label: CaptureLabel::read(&name),
                found: labelled_capture::read_capture(&file)
                    .map(|it| packet_replay::find_policer_by_packets(&it.packets, &it.round_trips)),
            });
        }
    }
    if judged.is_empty() {
        return Err(format!("no capture (*.pcap, *.pcap.xz) in {}", folder.display()));
    }
    judged.sort_by(|a, b| (a.label.kind, &a.label.words).cmp(&(b.label.kind, &b.label.words)));
    let columns = "truth | streams | policer found | rate, Mbit/s | burst, kB | \
         losses explained | passes explained | RTT before loss, ms | ";
    let mut table = MarkdownTable::new("Policers in labelled captures", columns);
    for one in &judged {
        table.row(format_row(one));
    }
    Ok(BenchOutcome::new(&[table], check_gates(&judged)))
}

fn list_captures(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder)
        .map_err(|e| format!("cannot read the folder {}: {e}", folder.display()))?;
    let is_capture = |file: &PathBuf| {
        let name = file.to_string_lossy();
        name.ends_with(".pcap") || name.ends_with(".pcap.xz")
    };
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(is_capture).take(MAX_FILES).collect())
}

fn format_row(judged: &JudgedCapture) -> Vec<String> {
    let label = &judged.label;
    let mut cells = vec![label.words.clone(), label.streams.to_string()];
    match &judged.found {
        Ok(Some(it)) => cells.extend([
            "yes".to_owned(),
            format!("{:.2}", it.rate_bps / 1e6),
            format!("{:.0}", it.burst_bytes / 1e3),
            format!("{:.1} %", 100.0 * it.losses_explained_ratio),
            format!("{:.1} %", 100.0 * it.passes_explained_ratio),
            format!("{:+.1}", it.rise_us / 1e3),
        ]),
        Ok(None) => {
            cells.push("no".to_owned());
            cells.resize(8, "–".to_owned());
        }
        Err(why) => {
            cells.push(format!("unread: {why}"));
            cells.resize(8, "–".to_owned());
        }
    }
    cells.push(format_mark(judged).to_owned());
    cells
}

fn format_mark(judged: &JudgedCapture) -> &'static str {
    let Ok(found) = &judged.found else {
        return "**unread**";
    };
    match (judged.label.kind, found.is_some()) {
        (PathLimitKind::Policer, true) | (PathLimitKind::Other, false) => "right",
        (PathLimitKind::Policer, false) => "**missed**",
        (PathLimitKind::Other, true) => "**false alarm**",
        (PathLimitKind::OwnBucket, _) => "not judged",
    }
}

fn check_gates(judged: &[JudgedCapture]) -> Vec<String> {
    let mut missed = Vec::new();
    for one in judged {
        let words = &one.label.words;
        match &one.found {
            Err(why) => missed.push(format!("{words}: {why}")),
            Ok(Some(_)) if one.label.kind == PathLimitKind::Other => {
                missed.push(format!("{words}: a policer was found where there is none"));
            }
            Ok(_) => {}
        }
    }
    let single = judged
        .iter()
        .filter(|one| one.label.kind == PathLimitKind::Policer && one.label.streams == 1);
    let all = single.clone().count();
    let found = single.filter(|one| matches!(one.found, Ok(Some(_)))).count();
    if (found as f64) < FOUND_MIN * all as f64 {
        missed.push(format!("{found} of {all} policers of one stream were found; 80 % must be"));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policers_of_the_fixtures_are_found_and_shapers_are_not() {
        // Two of each suffice here; the bench uses all.
        for (only, found) in [("CP=1006", "| yes |"), ("CP=1084", "| no |")] {
            let outcome = judge_captures(None, only).expect("the captures of the checkout");
            assert!(outcome.missed.is_empty(), "{:?}", outcome.missed);
            assert_eq!(outcome.text.matches(found).count(), 2, "{}", outcome.text);
        }
    }
}
