//! Tests the policer detector on captures of known truth.
//!
//! - [`capture`]: the packets of a capture's sender
//! - [`label`]: the truth, from the file name
//!
//! Wrong when: a label is wrong. A policer without its own bucket (`PCIR` alone) shows no queue and
//! drops a tenth of the packets; it is shown, but not part of the gates.

mod capture;
mod label;

use super::table::Table;
use crate::tree;
use label::{Kind, Label};
use longhaul_analysis::limit::policer::trace::{self, Policing};
use std::path::{Path, PathBuf};

/// Relative to the root of the checkout.
const DATA: &str = "fixtures/policing";
/// The minimum share of policed captures with one stream that must be found.
const FOUND_MIN: f64 = 0.8;
const MOST_FILES: usize = 1000;

struct Judged {
    label: Label,
    found: Result<Option<Policing>, String>,
}

/// Returns the table, and a sentence for every missed gate; `data` replaces the fixtures.
pub fn verdict(data: Option<&Path>, only: &str) -> Result<(Table, Vec<String>), String> {
    let folder = data.map_or_else(|| tree::root().join(DATA), Path::to_path_buf);
    let mut judged = Vec::new();
    for file in files(&folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.contains(only) {
            judged.push(Judged {
                label: Label::read(&name),
                found: capture::read(&file).map(|it| trace::find(&it.packets, &it.round_trips)),
            });
        }
    }
    if judged.is_empty() {
        return Err(format!(
            "no capture (*.pcap, *.pcap.xz) in {}",
            folder.display()
        ));
    }
    judged.sort_by(|a, b| (a.label.kind, &a.label.words).cmp(&(b.label.kind, &b.label.words)));
    let columns = [
        "truth",
        "streams",
        "policer found",
        "rate, Mbit/s",
        "burst, kB",
        "losses explained",
        "passes explained",
        "RTT before loss, ms",
        "",
    ];
    let mut table = Table::new("Policers in labelled captures", &columns);
    for one in &judged {
        table.row(row(one));
    }
    Ok((table, missed_gates(&judged)))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder)
        .map_err(|e| format!("cannot read the folder {}: {e}", folder.display()))?;
    let is_capture = |file: &PathBuf| {
        let name = file.to_string_lossy();
        name.ends_with(".pcap") || name.ends_with(".pcap.xz")
    };
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(is_capture).take(MOST_FILES).collect())
}

fn row(judged: &Judged) -> Vec<String> {
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
    cells.push(mark(judged).to_owned());
    cells
}

fn mark(judged: &Judged) -> &'static str {
    let Ok(found) = &judged.found else {
        return "**unread**";
    };
    match (judged.label.kind, found.is_some()) {
        (Kind::Policer, true) | (Kind::Other, false) => "right",
        (Kind::Policer, false) => "**missed**",
        (Kind::Other, true) => "**false alarm**",
        (Kind::OwnBucket, _) => "not judged",
    }
}

fn missed_gates(judged: &[Judged]) -> Vec<String> {
    let mut missed = Vec::new();
    for one in judged {
        let words = &one.label.words;
        match &one.found {
            Err(why) => missed.push(format!("{words}: {why}")),
            Ok(Some(_)) if one.label.kind == Kind::Other => {
                missed.push(format!("{words}: a policer was found where there is none"));
            }
            Ok(_) => {}
        }
    }
    let single = judged
        .iter()
        .filter(|one| one.label.kind == Kind::Policer && one.label.streams == 1);
    let all = single.clone().count();
    let found = single
        .filter(|one| matches!(one.found, Ok(Some(_))))
        .count();
    if (found as f64) < FOUND_MIN * all as f64 {
        missed.push(format!(
            "{found} of {all} policers of one stream were found; 80 % must be"
        ));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policers_of_the_fixtures_are_found_and_shapers_are_not() {
        // Two of each suffice here; the bench uses all.
        for (only, kind) in [("CP=1006", Kind::Policer), ("CP=1084", Kind::Other)] {
            let (table, missed) = verdict(None, only).expect("the captures of the checkout");
            assert!(missed.is_empty(), "{}", missed.join("\n"));
            assert_eq!(table.rows.len(), 2, "{only}");
            let word = if kind == Kind::Policer { "yes" } else { "no" };
            assert!(
                table.rows.iter().all(|row| row[2] == word),
                "{}",
                table.markdown()
            );
        }
    }
}
