//! The cells of a measured grid beside the prediction that follows from it, as
//! `longhaul predict --scan` shows it.
//!
//! Wrong when: the path has what the round model does not know (docs/methods/prediction.md). The path
//! is derived from the same grid, so only the shape of the grid is a test.

use super::{JudgedSearch, format_options};
use crate::markdown_table::{MarkdownTable, format_number};
use longhaul_analysis::predict::measured_comparison::{AGREES_RATIO, compute_rank_correlation};
use longhaul_analysis::predict::{derive_plan_from_scan, predict_goodput};
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::predict::{PredictionAnalysis, PredictionCell};
use serde::Deserialize;
use serde_json::Value;

const RANK_CORRELATION_MIN: f64 = 0.9;
const MEDIAN_ERROR_MAX: f64 = 0.15;

/// Predicts the cells of a grid from the path and the hosts that the grid measured.
pub fn predict_grid(grid: &Value) -> Result<PredictionAnalysis, String> {
    let scan = ScanReport::deserialize(grid).map_err(|e| format!("not a scan: {e}"))?;
    let (plan, observation) = derive_plan_from_scan(&scan, &[], true)?;
    Ok(predict_goodput(&plan, &observation))
}

/// Returns the table of all paths, and a sentence for every missed gate.
pub fn tabulate_predictions(judged: &[JudgedSearch]) -> (MarkdownTable, Vec<String>) {
    let columns = "path | RTT, ms | Mbit/s | cells | rank correlation | full cells alike | \
                   median error | worst cell";
    let mut table = MarkdownTable::new("Predictions beside measured grids", columns);
    let mut missed = Vec::new();
    for JudgedSearch { path, found } in judged {
        // A path without a result is a missed gate of the search.
        let Ok(found) = found else { continue };
        let Some(agreement) = &found.prediction.agreement else {
            missed.push(format!("{}: no cell is predicted", path.name));
            continue;
        };
        let (rank, error) = (agreement.rank_correlation, agreement.median_error_ratio);
        table.row(vec![
            path.name.clone(),
            path.rtt_ms.to_string(),
            path.rate_mbps.to_string(),
            agreement.cells.to_string(),
            format_number(rank, 3),
            format_number(correlate_full_alike(&found.prediction.cells), 3),
            format!("{:.1} %", 100.0 * error),
            format_worst_cell(&found.prediction.cells),
        ]);
        if rank.is_none_or(|rank| rank < RANK_CORRELATION_MIN) {
            let rank = format_number(rank, 3);
            missed.push(format!("{}: rank correlation {rank}; at least 0.9", path.name));
        }
        if error > MEDIAN_ERROR_MAX {
            let percent = 100.0 * error;
            missed.push(format!("{}: median error {percent:.1} %; at most 15 %", path.name));
        }
    }
    (table, missed)
}

/// Returns the rank correlation in which all cells that fill the path share a rank: those whose
/// measured and predicted goodputs are both near the highest ones. Chance orders them.
fn correlate_full_alike(cells: &[PredictionCell]) -> Option<f64> {
    let pairs = cells.iter().filter_map(|cell| {
        cell.measured_bps.map(|measured| (measured as f64, cell.goodput_bps as f64))
    });
    let mut pairs: Vec<(f64, f64)> = pairs.collect();
    let top = pairs.iter().fold((0.0_f64, 0.0_f64), |top, it| (top.0.max(it.0), top.1.max(it.1)));
    let least = 1.0 - AGREES_RATIO;
    for pair in &mut pairs {
        if pair.0 >= least * top.0 && pair.1 >= least * top.1 {
            *pair = top;
        }
    }
    compute_rank_correlation(&pairs)
}

fn format_worst_cell(cells: &[PredictionCell]) -> String {
    let distance = |cell: &&PredictionCell| {
        let measured = cell.measured_bps.map(|bps| bps as f64);
        measured.map_or(0.0, |bps| (bps - cell.goodput_bps as f64).abs() / bps)
    };
    let worst = cells.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)));
    worst.map_or_else(String::new, |cell| {
        let mbps = |bps: Option<u64>| format_number(bps.map(|bps| bps as f64 / 1e6), 1);
        format!(
            "{}: {} measured, {} predicted",
            format_options(&cell.setting),
            mbps(cell.measured_bps),
            mbps(Some(cell.goodput_bps))
        )
    })
}
