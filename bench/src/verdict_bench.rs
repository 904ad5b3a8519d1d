//! Tests whether the reported reason for a rate is the right one.
//!
//! Each cell of fixtures/verdicts.toml creates one fault on an emulated path and lets longhaul
//! measure across it. Right: `limited_by` names the fault, and the expected finding is reported.
//! Never: a fault case that looks healthy.
//!
//! Wrong when: the machine is too busy to keep the lab's timing; such cells carry the caveat, and a
//! wrong one among them is measured once more.

mod cpu_starvation;
pub mod fault_matrix;

use super::markdown_table::{MarkdownTable, format_number};
use super::scratch_folder::ScratchFolder;
use crate::BenchOutcome;
use cpu_starvation::StarvedServer;
use fault_matrix::{FaultCell, FaultMatrix};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

/// The caveats with which a report says that it saw foreign load.
const BUSY: [&str; 2] = ["busy_machine", "stolen_time"];
/// The minimum share of all cells that must be right.
const RIGHT_RATIO_MIN: f64 = 0.9;
/// The time for connecting, reporting and setting up the path, in addition to a run.
const MARGIN: Duration = Duration::from_secs(45);

/// The report of one cell.
#[derive(Debug, Clone)]
pub struct ReportedVerdict {
    pub limited_by: String,
    pub causes: Vec<String>,
    pub caveats: Vec<String>,
    pub goodput_mbps: Option<f64>,
}

/// One cell with its result, or the reason why there is none.
#[derive(Debug, Clone)]
pub struct JudgedCell {
    pub cell: FaultCell,
    pub reported: Result<ReportedVerdict, String>,
}

impl JudgedCell {
    pub fn is_right(&self) -> bool {
        let Ok(said) = &self.reported else {
            return false;
        };
        let finding = self.cell.finding.as_ref();
        self.cell.limited_by.contains(&said.limited_by)
            && finding.is_none_or(|cause| said.causes.contains(cause))
    }

    /// Reports whether the cell is wrong and the report saw foreign load; the starvation case is a
    /// fault of its own and not excused.
    fn is_inconclusive(&self) -> bool {
        let Ok(said) = &self.reported else {
            return false;
        };
        let busy = said.caveats.iter().any(|code| BUSY.contains(&code.as_str()));
        busy && !self.cell.starve_far && !self.is_right()
    }

    /// Reports whether a fault was created that the report does not mention.
    pub fn is_missed_fault(&self) -> bool {
        let Ok(said) = &self.reported else {
            return false;
        };
        let silent = said.causes.iter().all(|cause| cause == "healthy");
        !self.cell.clean && said.limited_by == "path_capacity" && silent
    }
}

/// Runs every cell of the matrix whose case's name contains `only`, one after the other; each
/// report is also written to the folder `keep`.
pub fn run_all(
    longhaul: &Path,
    only: &str,
    keep: Option<&Path>,
) -> Result<Vec<JudgedCell>, String> {
    let mut cells = FaultMatrix::read()?.cells;
    cells.retain(|cell| cell.case.contains(only));
    run_cells(longhaul, cells, keep)
}

/// Runs the quick cells of these cases. All parts of [`fault_matrix::QUICK_PARTS`] take a minute;
/// the whole matrix takes eight.
pub fn run_quick_cells(longhaul: &Path, cases: &[&str]) -> Result<Vec<JudgedCell>, String> {
    let mut cells = FaultMatrix::read()?.quick_cells();
    cells.retain(|cell| cases.contains(&cell.case.as_str()));
    run_cells(longhaul, cells, None)
}

fn run_cells(
    longhaul: &Path,
    cells: Vec<FaultCell>,
    keep: Option<&Path>,
) -> Result<Vec<JudgedCell>, String> {
    let scratch = ScratchFolder::new("verdicts")?;
    let judged = cells.into_iter().map(|cell| {
        let judged = judge_cell(longhaul, &scratch, cell, keep);
        if !judged.is_inconclusive() {
            return judged;
        }
        // The report says that something else had the processor: its verdict is neither right nor
        // wrong. The second result counts in any case.
        judge_cell(longhaul, &scratch, judged.cell, keep)
    });
    Ok(judged.collect())
}

fn judge_cell(
    longhaul: &Path,
    scratch: &ScratchFolder,
    cell: FaultCell,
    keep: Option<&Path>,
) -> JudgedCell {
    let said = measure_cell(longhaul, scratch, &cell).and_then(|report| {
        let kept = keep.map_or(Ok(()), |keep| keep_report(keep, &cell, &report));
        kept.map(|()| parse_reported_verdict(&report))
    });
    let judged = JudgedCell { cell, reported: said };
    eprintln!("{}", format_line(&judged));
    judged
}

pub fn tabulate_verdicts(judged: &[JudgedCell]) -> BenchOutcome {
    let columns = "case | RTT, ms | expected | said |  | Mbit/s | expected | caveats";
    let mut table = MarkdownTable::new("Fault matrix", columns);
    for one in judged {
        table.row(format_row(one));
    }
    BenchOutcome::new(&[table], check_gates(judged))
}

fn format_row(judged: &JudgedCell) -> Vec<String> {
    let cell = &judged.cell;
    let (said, rate, caveats) = match &judged.reported {
        Ok(said) => {
            (format_reported(said), format_number(said.goodput_mbps, 1), said.caveats.join(", "))
        }
        Err(why) => (format!("no answer: {why}"), "–".to_owned(), String::new()),
    };
    let mark = if judged.is_right() { "right" } else { "**wrong**" };
    let finding = cell.finding.iter().map(|cause| format!(" + {cause}"));
    vec![
        cell.case.clone(),
        cell.rtt_ms.to_string(),
        std::iter::once(cell.limited_by.join(" or ")).chain(finding).collect(),
        said,
        mark.to_owned(),
        rate,
        format_number(cell.expect_mbps, 0),
        caveats,
    ]
}

fn format_reported(said: &ReportedVerdict) -> String {
    if said.causes.is_empty() {
        return said.limited_by.clone();
    }
    format!("{} ({})", said.limited_by, said.causes.join(", "))
}

fn format_line(judged: &JudgedCell) -> String {
    format!("| {} |", format_row(judged).join(" | "))
}

fn check_gates(judged: &[JudgedCell]) -> Vec<String> {
    let right = judged.iter().filter(|one| one.is_right()).count();
    let mut missed = Vec::new();
    if (right as f64) < RIGHT_RATIO_MIN * judged.len() as f64 {
        missed.push(format!("{right} of {} cells are right; nine in ten must be", judged.len()));
    }
    for one in judged {
        let name = format!("{} at {} ms", one.cell.case, one.cell.rtt_ms);
        if one.cell.strict && !one.is_right() {
            missed.push(format!("{name}: must be right, and is not"));
        }
        if one.is_missed_fault() {
            missed.push(format!("{name}: a fault was made and the report calls the path healthy"));
        }
    }
    missed
}

fn keep_report(folder: &Path, cell: &FaultCell, report: &Value) -> Result<(), String> {
    let file = folder.join(format!("{}.json", cell.key()));
    std::fs::write(&file, report.to_string())
        .map_err(|e| format!("cannot write {}: {e}", file.display()))
}

fn measure_cell(
    longhaul: &Path,
    scratch: &ScratchFolder,
    cell: &FaultCell,
) -> Result<Value, String> {
    let file = scratch.write(&format!("{}.toml", cell.key()), &cell.path_file()?)?;
    let mut lab = Command::new(longhaul);
    lab.args(["lab", "run"]).arg(&file).arg("--").arg(longhaul).args(["test", "far"]);
    lab.args(&cell.test).args(["-C", "cubic", "--json", "--no-save", "--quiet"]);
    let limit = Duration::from_secs(cell.seconds) + MARGIN;
    let output = if cell.starve_far {
        let child = program_runner::spawn_captured(&mut lab)?;
        let starved = StarvedServer::far_end_of(child.id())?;
        let output = program_runner::wait_with_output(child, limit)?;
        drop(starved);
        output
    } else {
        program_runner::capture_output(&mut lab, limit)?
    };
    serde_json::from_str(&output.stdout).map_err(|_| find_error_line(&output.stderr))
}

pub(super) fn find_error_line(stderr: &str) -> String {
    let words =
        stderr.lines().find(|line| line.starts_with("error")).or_else(|| stderr.lines().last());
    words.unwrap_or("it printed nothing").to_owned()
}

fn parse_reported_verdict(report: &Value) -> ReportedVerdict {
    let analysis = &report["analysis"];
    let words = |list: &Value, key: &str| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|item| item[key].as_str()).map(str::to_owned).collect()
    };
    let goodput =
        analysis["goodput_bps"].as_f64().or_else(|| analysis["mean_goodput_bps"].as_f64());
    ReportedVerdict {
        limited_by: analysis["limited_by"].as_str().unwrap_or("nothing").to_owned(),
        causes: words(&report["findings"], "cause"),
        caveats: words(&report["caveats"], "code"),
        goodput_mbps: goodput.map(|bps| bps / 1e6),
    }
}
