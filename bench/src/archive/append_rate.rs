//! The insert rate: finished runs with reports and values, each batch on the disk before the next.

use super::super::scratch_folder::ScratchFolder;
use super::year::{
    BEGIN_US, MINUTE_US, REPORT, generate_noisy_value, list_mesh_pairs, make_reading,
};
use super::{format_store_error, open_archive};
use crate::bench_cases::read_cases;
use crate::markdown_table::{MarkdownTable, format_number, median};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{HistoryStore, IncomingRun};
use serde::Deserialize;
use std::time::Instant;

/// The number of runs in one trial, and of trials.
const RUNS: usize = 40_000;
const TRIALS: usize = 5;

const GATE_PER_S: f64 = 20_000.0;

#[derive(Deserialize)]
struct AppendCase {
    name: String,
    #[serde(default)]
    backlog: bool,
    batch: usize,
    #[serde(default)]
    real: bool,
    #[serde(default)]
    gate: bool,
    #[serde(default = "default_runs")]
    runs: usize,
}

fn default_runs() -> usize {
    RUNS
}

pub fn measure_appends(
    scratch: &ScratchFolder,
    missed: &mut Vec<String>,
) -> Result<MarkdownTable, String> {
    let columns = "results | batch | bytes of a report | values of a run | results/s | \
         of the slowest trial | gate";
    let mut table = MarkdownTable::new("Results appended", columns);
    for case in read_cases::<AppendCase>("append")? {
        let runs = generate_runs(&case)?;
        let rates = (0..TRIALS)
            .map(|trial| {
                measure_append_rate(scratch, &format!("append-{trial}"), &runs, case.batch)
            })
            .collect::<Result<Vec<f64>, String>>()?;
        let middle = median(&rates).unwrap_or_default();
        if case.gate && middle < GATE_PER_S {
            missed.push(format!("{}: {middle:.0} results/s", case.name));
        }
        let slowest = rates.iter().copied().reduce(f64::min);
        let gate = if case.gate { "≥ 20,000" } else { "–" };
        table.row(vec![
            case.name.clone(),
            case.batch.to_string(),
            runs[0].report.len().to_string(),
            runs[0].readings.len().to_string(),
            format_number(Some(middle), 0),
            format_number(slowest, 0),
            gate.to_owned(),
        ]);
    }
    Ok(table)
}

/// Returns the rate of all batches into a new file, without its removal.
fn measure_append_rate(
    scratch: &ScratchFolder,
    name: &str,
    runs: &[IncomingRun],
    batch: usize,
) -> Result<f64, String> {
    let mut archive = open_archive(scratch, name)?;
    let begin = Instant::now();
    for batch in runs.chunks(batch) {
        archive.append_runs(batch).map_err(|e| format_store_error(&e))?;
    }
    let rate = runs.len() as f64 / begin.elapsed().as_secs_f64();
    drop(archive);
    let removed = std::fs::remove_file(scratch.path(name));
    removed.map_err(|e| format!("cannot remove {name}: {e}"))?;
    Ok(rate)
}

fn generate_runs(case: &AppendCase) -> Result<Vec<IncomingRun>, String> {
    let pairs = list_mesh_pairs();
    let at_once = if case.backlog { &pairs[..31] } else { &pairs[..] };
    let text = REPORT.replace('\n', "");
    let pattern = IncomingRun::from_json(text, 0).map_err(|e| format_store_error(&e))?;
    let places = 0..case.runs;
    let run = |place: usize| {
        let at_us = BEGIN_US + (place / at_once.len()) as i64 * MINUTE_US + (place % 60) as i64;
        let pair = &at_once[place % at_once.len()];
        fill_pattern(&pattern, case.real, place, (pair, at_us))
    };
    Ok(places.map(run).collect())
}

/// Returns the pattern as a run of a pair at a time, with its own id.
fn fill_pattern(
    pattern: &IncomingRun,
    real: bool,
    place: usize,
    of: (&HostPair, i64),
) -> IncomingRun {
    let (pair, at_us) = of;
    let mut run = pattern.clone();
    run.run.id = format!("20260101T000000Z-{place:08x}");
    run.run.initiator.host.clone_from(&pair.from);
    run.run.responder.host.clone_from(&pair.to);
    run.report = run.report.replace(&pattern.run.id, &run.run.id);
    if !real {
        // The store does not parse reports, so the first part serves as a short one.
        run.report.truncate(1000);
    }
    run.at_us = at_us;
    run.readings = [
        (PathQuantity::RttFloor, 80_000.0),
        (PathQuantity::Loss, 0.001),
        (PathQuantity::Hops, 17.0),
    ]
    .into_iter()
    .map(|(quantity, level)| {
        make_reading(pair, quantity, at_us, generate_noisy_value(level, place as u64))
    })
    .collect();
    run
}
