//! Tests whether the reported reason for a rate is the right one.
//!
//! Each cell of fixtures/verdicts.toml creates one fault on an emulated path and lets longhaul
//! measure across it. Right: `limited_by` names the fault, and the expected finding is reported.
//! Never: a fault case that looks healthy.
//!
//! Wrong when: the machine is too busy to keep the lab's timing; such cells carry the caveat, and a
//! wrong one among them is measured once more.

pub mod matrix;
mod starve;

use super::scratch::Scratch;
use super::table::{Table, number};
use crate::process;
use matrix::{Cell, Matrix};
use serde_json::Value;
use starve::Starved;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The caveats with which a report says that it saw foreign load.
const BUSY: [&str; 2] = ["busy_machine", "stolen_time"];
/// The minimum share of all cells that must be right.
const RIGHT_RATIO_MIN: f64 = 0.9;
/// The time for connecting, reporting and setting up the path, in addition to a run.
const MARGIN: Duration = Duration::from_secs(45);

/// The report of one cell.
#[derive(Debug, Clone)]
pub struct Said {
    pub limited_by: String,
    pub causes: Vec<String>,
    pub caveats: Vec<String>,
    pub goodput_mbps: Option<f64>,
}

/// One cell with its result, or the reason why there is none.
#[derive(Debug, Clone)]
pub struct Judged {
    pub cell: Cell,
    pub said: Result<Said, String>,
}

impl Judged {
    pub fn is_right(&self) -> bool {
        let Ok(said) = &self.said else { return false };
        let finding = self.cell.finding.as_ref();
        self.cell.limited_by.contains(&said.limited_by)
            && finding.is_none_or(|cause| said.causes.contains(cause))
    }

    /// Reports whether the cell is wrong and the report saw foreign load; the starvation case is a
    /// fault of its own and not excused.
    fn is_inconclusive(&self) -> bool {
        let Ok(said) = &self.said else { return false };
        let busy = said
            .caveats
            .iter()
            .any(|code| BUSY.contains(&code.as_str()));
        busy && !self.cell.starve_far && !self.is_right()
    }

    /// Reports whether a fault was created that the report does not mention.
    pub fn looks_healthy_but_is_not(&self) -> bool {
        let Ok(said) = &self.said else { return false };
        let silent = said.causes.iter().all(|cause| cause == "healthy");
        !self.cell.clean && said.limited_by == "path_capacity" && silent
    }
}

/// Runs every cell of the matrix whose case's name contains `only`, one after the other; each
/// report is also written to the folder `keep`.
pub fn run_all(longhaul: &Path, only: &str, keep: Option<&Path>) -> Result<Vec<Judged>, String> {
    let mut cells = Matrix::read()?.cells;
    cells.retain(|cell| cell.case.contains(only));
    run(longhaul, cells, keep)
}

/// Runs every case that must be right and the clean path once, alternating between the short RTTs.
/// It takes a minute; the whole matrix takes eight.
pub fn run_in_turn(longhaul: &Path) -> Result<Vec<Judged>, String> {
    run(longhaul, Matrix::read()?.in_turn(), None)
}

fn run(longhaul: &Path, cells: Vec<Cell>, keep: Option<&Path>) -> Result<Vec<Judged>, String> {
    let scratch = Scratch::new("verdicts")?;
    let judged = cells.into_iter().map(|cell| {
        let judged = judge(longhaul, &scratch, cell, keep);
        if !judged.is_inconclusive() {
            return judged;
        }
        // The report says that something else had the processor: its verdict is neither right nor
        // wrong. The second result counts in any case.
        judge(longhaul, &scratch, judged.cell, keep)
    });
    Ok(judged.collect())
}

fn judge(longhaul: &Path, scratch: &Scratch, cell: Cell, keep: Option<&Path>) -> Judged {
    let said = measure(longhaul, scratch, &cell).and_then(|report| {
        let kept = keep.map_or(Ok(()), |keep| kept(keep, &cell, &report));
        kept.map(|()| said(&report))
    });
    let judged = Judged { cell, said };
    eprintln!("{}", line(&judged));
    judged
}

/// Returns the table, and a sentence for every missed gate.
pub fn verdict(judged: &[Judged]) -> (Table, Vec<String>) {
    let columns = [
        "case", "RTT, ms", "expected", "said", "", "Mbit/s", "expected", "caveats",
    ];
    let mut table = Table::new("Fault matrix", &columns);
    for one in judged {
        table.row(row(one));
    }
    (table, missed_gates(judged))
}

fn row(judged: &Judged) -> Vec<String> {
    let cell = &judged.cell;
    let (said, rate, caveats) = match &judged.said {
        Ok(said) => (
            shown(said),
            number(said.goodput_mbps, 1),
            said.caveats.join(", "),
        ),
        Err(why) => (format!("no answer: {why}"), "–".to_owned(), String::new()),
    };
    let mark = if judged.is_right() {
        "right"
    } else {
        "**wrong**"
    };
    let finding = cell.finding.iter().map(|cause| format!(" + {cause}"));
    vec![
        cell.case.clone(),
        cell.rtt_ms.to_string(),
        std::iter::once(cell.limited_by.join(" or "))
            .chain(finding)
            .collect(),
        said,
        mark.to_owned(),
        rate,
        number(cell.expect_mbps, 0),
        caveats,
    ]
}

fn shown(said: &Said) -> String {
    if said.causes.is_empty() {
        return said.limited_by.clone();
    }
    format!("{} ({})", said.limited_by, said.causes.join(", "))
}

fn line(judged: &Judged) -> String {
    format!("| {} |", row(judged).join(" | "))
}

fn missed_gates(judged: &[Judged]) -> Vec<String> {
    let right = judged.iter().filter(|one| one.is_right()).count();
    let mut missed = Vec::new();
    if (right as f64) < RIGHT_RATIO_MIN * judged.len() as f64 {
        missed.push(format!(
            "{right} of {} cells are right; nine in ten must be",
            judged.len()
        ));
    }
    for one in judged {
        let name = format!("{} at {} ms", one.cell.case, one.cell.rtt_ms);
        if one.cell.strict && !one.is_right() {
            missed.push(format!("{name}: must be right, and is not"));
        }
        if one.looks_healthy_but_is_not() {
            missed.push(format!(
                "{name}: a fault was made and the report calls the path healthy"
            ));
        }
    }
    missed
}

fn kept(folder: &Path, cell: &Cell, report: &Value) -> Result<(), String> {
    let file = folder.join(format!("{}.json", cell.key()));
    std::fs::write(&file, report.to_string())
        .map_err(|e| format!("cannot write {}: {e}", file.display()))
}

fn measure(longhaul: &Path, scratch: &Scratch, cell: &Cell) -> Result<Value, String> {
    let file = scratch.write(&format!("{}.toml", cell.key()), &cell.path_file()?)?;
    let mut lab = Command::new(longhaul);
    lab.args(["lab", "run"])
        .arg(&file)
        .arg("--")
        .arg(longhaul)
        .args(["test", "far"]);
    lab.args(&cell.test)
        .args(["-C", "cubic", "--json", "--no-save", "--quiet"]);
    let limit = Duration::from_secs(cell.seconds) + MARGIN;
    let output = if cell.starve_far {
        let child = lab
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = child
            .spawn()
            .map_err(|e| format!("cannot start longhaul: {e}"))?;
        let starved = Starved::far_end_of(child.id())?;
        let output = process::finish(child, limit)?;
        drop(starved);
        output
    } else {
        process::capture(&mut lab, limit)?
    };
    serde_json::from_str(&output.stdout).map_err(|_| last_words(&output.stderr))
}

pub(super) fn last_words(stderr: &str) -> String {
    let words = stderr
        .lines()
        .find(|line| line.starts_with("error"))
        .or_else(|| stderr.lines().last());
    words.unwrap_or("it printed nothing").to_owned()
}

fn said(report: &Value) -> Said {
    let analysis = &report["analysis"];
    let words = |list: &Value, key: &str| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items
            .filter_map(|item| item[key].as_str())
            .map(str::to_owned)
            .collect()
    };
    let goodput = analysis["goodput_bps"]
        .as_f64()
        .or_else(|| analysis["mean_goodput_bps"].as_f64());
    Said {
        limited_by: analysis["limited_by"]
            .as_str()
            .unwrap_or("nothing")
            .to_owned(),
        causes: words(&report["findings"], "cause"),
        caveats: words(&report["caveats"], "code"),
        goodput_mbps: goodput.map(|bps| bps / 1e6),
    }
}
