//! Tests whether the reported reason for a rate is the right one.
//!
//! Each cell of fixtures/verdicts.toml creates one fault on an emulated path and lets longhaul
//! measure across it. Right: `limited_by` names the fault, and the expected finding is reported.
//! Never: a fault case that looks healthy.
//!
//! Wrong when: the machine is too busy to keep the lab's timing; such cells carry the caveats
//! `busy_machine` or `stolen_time`.

use crate::BenchOutcome;
use crate::lab_reports::{LabReporter, read_goodput_bps};
use crate::markdown_table::{MarkdownTable, format_number};
use crate::narrow_path::NarrowPath;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use toml::Table;
use xtask::checkout;

/// The minimum share of all cells that must be right.
const RIGHT_RATIO_MIN: f64 = 0.9;
/// The autotuning limits at both ends of every path of the matrix.
const BUFFERS: [(&str, &str); 2] =
    [("net.ipv4.tcp_rmem", "4096 131072 67108864"), ("net.ipv4.tcp_wmem", "4096 65536 67108864")];

/// The report of one cell.
#[derive(Debug, Clone)]
struct ReportedVerdict {
    limited_by: String,
    causes: Vec<String>,
    caveats: Vec<String>,
    goodput_mbps: Option<f64>,
}

/// One cell with its result, or the reason why there is none.
#[derive(Debug, Clone)]
pub struct JudgedCell {
    cell: FaultCell,
    reported: Result<ReportedVerdict, String>,
}

impl JudgedCell {
    fn is_right(&self) -> bool {
        let finding = self.cell.case.finding.as_ref();
        self.reported.as_ref().is_ok_and(|reported| {
            self.cell.case.limited_by.contains(&reported.limited_by)
                && finding.is_none_or(|cause| reported.causes.contains(cause))
        })
    }

    /// Reports whether a fault was created that the report does not mention.
    fn is_missed_fault(&self) -> bool {
        self.reported.as_ref().is_ok_and(|reported| {
            let silent = reported.causes.iter().all(|cause| cause == "healthy");
            !self.cell.case.clean && reported.limited_by == "path_capacity" && silent
        })
    }
}

/// Runs every cell of the matrix whose case's name contains `only`, one after the other; each
/// report is also written to the folder `keep`.
pub fn run_all(longhaul: &Path, only: &str, keep: Option<&Path>) -> Result<BenchOutcome, String> {
    let mut cells = read_fault_cells()?;
    cells.retain(|cell| cell.case.name.contains(only));
    run_cells(longhaul, cells, keep)
}

/// Runs these cells one after the other.
pub fn run_cells(
    longhaul: &Path,
    cells: Vec<FaultCell>,
    keep: Option<&Path>,
) -> Result<BenchOutcome, String> {
    let lab = LabReporter::new(longhaul, keep)?;
    let judged: Vec<JudgedCell> = cells.into_iter().map(|cell| judge_cell(&lab, cell)).collect();
    let columns = "case | RTT, ms | expected | reported |  | Mbit/s | expected | caveats";
    let mut table = MarkdownTable::new("Fault matrix", columns);
    for one in &judged {
        table.row(format_row(one));
    }
    Ok(BenchOutcome::new(&[table], check_gates(&judged)))
}

fn judge_cell(lab: &LabReporter<'_>, cell: FaultCell) -> JudgedCell {
    let reported = measure_cell(lab, &cell).map(|report| parse_reported_verdict(&report));
    let judged = JudgedCell { cell, reported };
    eprintln!("| {} |", format_row(&judged).join(" | "));
    judged
}

fn measure_cell(lab: &LabReporter<'_>, cell: &FaultCell) -> Result<Value, String> {
    let mut path = lab.path(&NarrowPath {
        title: &cell.title(),
        rtt_ms: cell.rtt_ms,
        link: &cell.link,
        near: &BUFFERS,
        far: &BUFFERS,
    })?;
    path.starve_far = cell.case.starve_far;
    let words = format!("test far {} -C cubic", cell.test);
    lab.report(&path, "test", &words, Duration::from_secs(cell.seconds))
}

fn format_row(judged: &JudgedCell) -> Vec<String> {
    let (cell, case) = (&judged.cell, &judged.cell.case);
    let (reported, rate, caveats) = match &judged.reported {
        Ok(reported) => (
            format_reported(reported),
            format_number(reported.goodput_mbps, 1),
            reported.caveats.join(", "),
        ),
        Err(why) => (format!("no answer: {why}"), "–".to_owned(), String::new()),
    };
    let mark = if judged.is_right() { "right" } else { "**wrong**" };
    let finding = case.finding.iter().map(|cause| format!(" + {cause}"));
    vec![
        case.name.clone(),
        cell.rtt_ms.to_string(),
        std::iter::once(case.limited_by.join(" or ")).chain(finding).collect(),
        reported,
        mark.to_owned(),
        rate,
        format_number(cell.expect_mbps(), 0),
        caveats,
    ]
}

fn format_reported(reported: &ReportedVerdict) -> String {
    if reported.causes.is_empty() {
        return reported.limited_by.clone();
    }
    format!("{} ({})", reported.limited_by, reported.causes.join(", "))
}

fn check_gates(judged: &[JudgedCell]) -> Vec<String> {
    let right = judged.iter().filter(|one| one.is_right()).count();
    let mut missed = Vec::new();
    if (right as f64) < RIGHT_RATIO_MIN * judged.len() as f64 {
        missed.push(format!("{right} of {} cells are right; nine in ten must be", judged.len()));
    }
    for one in judged {
        let title = one.cell.title();
        if one.cell.case.strict && !one.is_right() {
            missed.push(format!("{title}: must be right, and is not"));
        }
        if one.is_missed_fault() {
            missed.push(format!("{title}: a fault was made and the report calls the path healthy"));
        }
    }
    missed
}

fn parse_reported_verdict(report: &Value) -> ReportedVerdict {
    let words = |list: &Value, key: &str| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|item| item[key].as_str()).map(str::to_owned).collect()
    };
    ReportedVerdict {
        limited_by: report["analysis"]["limited_by"].as_str().unwrap_or("nothing").to_owned(),
        causes: words(&report["findings"], "cause"),
        caveats: words(&report["caveats"], "code"),
        goodput_mbps: read_goodput_bps(report).map(|bps| bps / 1e6),
    }
}

/// The file of the matrix, relative to the root of the checkout.
const FILE: &str = "fixtures/verdicts.toml";

/// One case at one RTT.
#[derive(Debug, Clone)]
pub struct FaultCell {
    pub case: MatrixCase,
    pub rtt_ms: u64,
    pub seconds: u64,
    /// The options of `longhaul test`.
    pub test: String,
    pub link: Table,
}

#[derive(Deserialize)]
struct MatrixFile {
    rtt: Vec<MatrixRtt>,
    case: Vec<MatrixCase>,
}

#[derive(Deserialize)]
struct MatrixRtt {
    ms: u64,
    seconds: u64,
    link: Table,
}

/// A case; maps have one entry for each RTT in ms.
#[derive(Debug, Clone, Deserialize)]
pub struct MatrixCase {
    pub name: String,
    /// The verdicts that are right.
    pub limited_by: Vec<String>,
    pub finding: Option<String>,
    /// No fault is created.
    #[serde(default)]
    pub clean: bool,
    /// Must be right, whatever the other cells are.
    #[serde(default)]
    pub strict: bool,
    /// The far end shares its core with a program that uses nearly all of it.
    #[serde(default)]
    pub starve_far: bool,
    #[serde(flatten)]
    change: CaseChange,
    #[serde(default)]
    at: BTreeMap<String, CaseChange>,
    #[serde(default)]
    expect_mbps: BTreeMap<String, f64>,
}

/// The link and the options of a case, or its differences at one RTT.
#[derive(Debug, Clone, Default, Deserialize)]
struct CaseChange {
    #[serde(default)]
    link: Table,
    #[serde(default)]
    test: Vec<String>,
}

/// Returns all cells, case by case.
pub fn read_fault_cells() -> Result<Vec<FaultCell>, String> {
    let file = checkout::find_root().join(FILE);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
    parse_fault_cells(&text).map_err(|why| format!("{FILE}: {why}"))
}

fn parse_fault_cells(text: &str) -> Result<Vec<FaultCell>, toml::de::Error> {
    let file: MatrixFile = toml::from_str(text)?;
    let of_case = |case| file.rtt.iter().map(move |rtt| make_cell(case, rtt));
    Ok(file.case.iter().flat_map(of_case).collect())
}

fn make_cell(case: &MatrixCase, rtt: &MatrixRtt) -> FaultCell {
    let mut link = rtt.link.clone();
    let mut test = Vec::new();
    for change in std::iter::once(&case.change).chain(case.at.get(&rtt.ms.to_string())) {
        link.extend(change.link.clone());
        test.extend(change.test.iter().cloned());
    }
    if !test.iter().any(|word| word == "-n" || word == "-t") {
        test.extend(["-t".to_owned(), rtt.seconds.to_string()]);
    }
    FaultCell {
        case: case.clone(),
        rtt_ms: rtt.ms,
        seconds: rtt.seconds,
        test: test.join(" "),
        link,
    }
}

impl FaultCell {
    pub fn title(&self) -> String {
        format!("{}, {} ms", self.case.name, self.rtt_ms)
    }

    /// Returns the goodput that the fault leaves, if it is known.
    pub fn expect_mbps(&self) -> Option<f64> {
        self.case.expect_mbps.get(&self.rtt_ms.to_string()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_at_every_round_trip_time() {
        let cells = read_fault_cells().expect("the matrix of the checkout");
        assert_eq!(cells.len(), 33);
        assert!(cells.iter().all(|cell| !cell.case.limited_by.is_empty()));
    }

    #[test]
    fn a_case_changes_the_link_and_one_round_trip_time_changes_the_case() {
        let text = r#"
            [[rtt]]
            ms = 2
            seconds = 5
            link = { rate = "1 Gbit/s", queue = "500 kB" }
            [[rtt]]
            ms = 40
            seconds = 8
            link = { rate = "1 Gbit/s" }
            [[case]]
            name = "lossy"
            limited_by = ["loss"]
            test = ["-P", "2"]
            link = { loss = 0.5 }
            at = { 40 = { link = { loss = 0.25 }, test = ["-n", "1K"] } }
        "#;
        let cells = parse_fault_cells(text).expect("a good matrix");
        let loss = |cell: &FaultCell| cell.link.get("loss").and_then(toml::Value::as_float);
        assert_eq!(cells.iter().map(loss).collect::<Vec<_>>(), [Some(0.5), Some(0.25)]);
        assert_eq!(cells[0].test, "-P 2 -t 5");
        assert_eq!(cells[1].test, "-P 2 -n 1K");
        assert_eq!(cells[0].link["queue"].as_str(), Some("500 kB"));
    }
}
