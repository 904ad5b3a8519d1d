//! `longhaul predict` against measured scans of six windows by six numbers of streams.

use super::ground::Ground;
use super::jobs::side_by_side;
use super::paths::Path;
use crate::bench::table::{Table, number};
use serde_json::Value;
use std::time::Duration;

/// The number of windows besides the kernel's own.
const ASKED_WINDOWS: u32 = 5;
const STREAMS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const CONTROL: &str = "cubic";
const CELL_OVERHEAD_S: u64 = 4;
const PREDICT_S: u64 = 30;
const RANK_CORRELATION_MIN: f64 = 0.9;
const MEDIAN_ERROR_MAX: f64 = 0.15;

/// The agreement of a prediction with a scan.
struct Agreement {
    cells: u64,
    rank_correlation: Option<f64>,
    median_error_ratio: f64,
    /// The cell with the largest error: setting, measured and predicted Mbit/s.
    worst: String,
}

/// Returns the table, and a sentence for every missed gate.
pub fn verdict(ground: &Ground, paths: Vec<Path>, jobs: usize) -> (Table, Vec<String>) {
    let columns = [
        "path",
        "RTT, ms",
        "Mbit/s",
        "cells",
        "rank correlation",
        "median error",
        "worst cell",
    ];
    let mut table = Table::new("Predictions beside measured scans", &columns);
    let tasks = paths.into_iter().map(|path| (path.rate_mbps, path));
    let judged = side_by_side(tasks.collect(), jobs, |path| {
        let found = judge(ground, &path);
        (path, found)
    });
    let mut missed = Vec::new();
    for (path, found) in &judged {
        table.row(row(path, found));
        missed.extend(missed_gates(path, found));
    }
    (table, missed)
}

fn judge(ground: &Ground, path: &Path) -> Result<Agreement, String> {
    let site = ground.site(path)?;
    let windows = path.windows(ASKED_WINDOWS, ground.granted_bytes());
    let streams = STREAMS.map(|n| n.to_string()).join(",");
    let time = format!("{}s", path.seconds);
    let words = [
        "tune", "far", "--grid", "--quiet", "-w", &windows, "-P", &streams, "-C", CONTROL, "-t",
        &time,
    ];
    let cells = (1 + ASKED_WINDOWS) * STREAMS.len() as u32;
    let cell = Duration::from_secs(path.seconds + CELL_OVERHEAD_S);
    site.report("scan", &words, cell * cells)?;
    let words = ["predict", "--scan", "last"];
    let report = site.report("predict", &words, Duration::from_secs(PREDICT_S))?;
    let agreement = &report["analysis"]["agreement"];
    Ok(Agreement {
        cells: agreement["cells"]
            .as_u64()
            .ok_or("no agreement was found")?,
        rank_correlation: agreement["rank_correlation"].as_f64(),
        median_error_ratio: agreement["median_error_ratio"]
            .as_f64()
            .ok_or("no error was found")?,
        worst: worst_cell(&report),
    })
}

fn worst_cell(report: &Value) -> String {
    let cells = report["analysis"]["cells"].as_array();
    let apart = |cell: &&Value| cell["disagreement_ratio"].as_f64().map_or(0.0, f64::abs);
    let worst = cells
        .into_iter()
        .flatten()
        .max_by(|a, b| apart(a).total_cmp(&apart(b)));
    let Some(worst) = worst else {
        return "–".to_owned();
    };
    let setting = super::setting::Setting::read(&worst["setting"]).unwrap_or_default();
    let mbps = |key: &str| number(worst[key].as_f64().map(|bps| bps / 1e6), 1);
    let (measured, predicted) = (mbps("measured_bps"), mbps("goodput_bps"));
    format!(
        "{}: {measured} measured, {predicted} predicted",
        setting.words()
    )
}

fn row(path: &Path, found: &Result<Agreement, String>) -> Vec<String> {
    let mut cells = vec![
        path.name.clone(),
        path.rtt_ms.to_string(),
        path.rate_mbps.to_string(),
    ];
    match found {
        Ok(it) => cells.extend([
            it.cells.to_string(),
            number(it.rank_correlation, 3),
            format!("{:.1} %", 100.0 * it.median_error_ratio),
            it.worst.clone(),
        ]),
        Err(why) => cells.extend(["–", "–", "–", &format!("no answer: {why}")].map(str::to_owned)),
    }
    cells
}

fn missed_gates(path: &Path, found: &Result<Agreement, String>) -> Vec<String> {
    let it = match found {
        Ok(it) => it,
        Err(why) => return vec![format!("{}: no answer: {why}", path.name)],
    };
    let rank = it.rank_correlation.unwrap_or(0.0);
    let error = 100.0 * it.median_error_ratio;
    let mut missed = Vec::new();
    if rank < RANK_CORRELATION_MIN {
        missed.push(format!(
            "{}: rank correlation {rank:.3}; at least 0.9",
            path.name
        ));
    }
    if it.median_error_ratio > MEDIAN_ERROR_MAX {
        missed.push(format!(
            "{}: median error {error:.1} %; at most 15 %",
            path.name
        ));
    }
    missed
}
