//! `longhaul predict` against measured scans of six windows by six numbers of streams.

use super::tune_testbed::TuneTestbed;
use super::tuning_paths::TuneFixturePath;
use crate::markdown_table::{MarkdownTable, format_number};
use crate::parallel_jobs::run_in_parallel;
use crate::{BenchOutcome, list_missed};
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
struct PredictionBenchResult {
    cells: u64,
    rank_correlation: Option<f64>,
    median_error_ratio: f64,
    /// The cell with the largest error: setting, measured and predicted Mbit/s.
    worst: String,
}

/// Returns the table, and a sentence for every missed gate.
pub fn judge_predictions(
    ground: &TuneTestbed,
    paths: Vec<TuneFixturePath>,
    jobs: usize,
) -> BenchOutcome {
    let columns = "path | RTT, ms | Mbit/s | cells | rank correlation | median error | worst cell";
    let mut table = MarkdownTable::new("Predictions beside measured scans", columns);
    let tasks = paths.into_iter().map(|path| (path.rate_mbps, path));
    let judged = run_in_parallel(tasks.collect(), jobs, |path| {
        let found = judge_prediction(ground, &path);
        (path, found)
    });
    let mut missed = Vec::new();
    for (path, found) in &judged {
        table.row(format_row(path, found));
        missed.extend(check_gates(path, found));
    }
    BenchOutcome::new(&[table], missed)
}

fn judge_prediction(
    ground: &TuneTestbed,
    path: &TuneFixturePath,
) -> Result<PredictionBenchResult, String> {
    let site = ground.site(path)?;
    let windows = path.windows(ASKED_WINDOWS, ground.granted_bytes());
    let streams = STREAMS.map(|n| n.to_string()).join(",");
    let words = format!(
        "tune far --grid --quiet -w {windows} -P {streams} -C {CONTROL} -t {}s",
        path.seconds
    );
    let cells = (1 + ASKED_WINDOWS) * STREAMS.len() as u32;
    let cell = Duration::from_secs(path.seconds + CELL_OVERHEAD_S);
    site.report("scan", &words, cell * cells)?;
    let limit = Duration::from_secs(PREDICT_S);
    let report = site.report("predict", "predict --scan last", limit)?;
    let agreement = &report["analysis"]["agreement"];
    Ok(PredictionBenchResult {
        cells: agreement["cells"].as_u64().ok_or("no agreement was found")?,
        rank_correlation: agreement["rank_correlation"].as_f64(),
        median_error_ratio: agreement["median_error_ratio"].as_f64().ok_or("no error was found")?,
        worst: format_worst_cell(&report),
    })
}

fn format_worst_cell(report: &Value) -> String {
    let cells = report["analysis"]["cells"].as_array();
    let apart = |cell: &&Value| cell["disagreement_ratio"].as_f64().map_or(0.0, f64::abs);
    let worst = cells.into_iter().flatten().max_by(|a, b| apart(a).total_cmp(&apart(b)));
    let Some(worst) = worst else {
        return "–".to_owned();
    };
    let setting = super::bench_setting::BenchSetting::read(&worst["setting"]).unwrap_or_default();
    let mbps = |key: &str| format_number(worst[key].as_f64().map(|bps| bps / 1e6), 1);
    let (measured, predicted) = (mbps("measured_bps"), mbps("goodput_bps"));
    format!("{}: {measured} measured, {predicted} predicted", setting.format_short())
}

fn format_row(
    path: &TuneFixturePath,
    found: &Result<PredictionBenchResult, String>,
) -> Vec<String> {
    let mut cells = vec![path.name.clone(), path.rtt_ms.to_string(), path.rate_mbps.to_string()];
    match found {
        Ok(it) => cells.extend([
            it.cells.to_string(),
            format_number(it.rank_correlation, 3),
            format!("{:.1} %", 100.0 * it.median_error_ratio),
            it.worst.clone(),
        ]),
        Err(why) => cells.extend(["–", "–", "–", &format!("no answer: {why}")].map(str::to_owned)),
    }
    cells
}

fn check_gates(
    path: &TuneFixturePath,
    found: &Result<PredictionBenchResult, String>,
) -> Vec<String> {
    let it = match found {
        Ok(it) => it,
        Err(why) => return vec![format!("{}: no answer: {why}", path.name)],
    };
    let rank = it.rank_correlation.unwrap_or(0.0);
    let (name, error) = (&path.name, 100.0 * it.median_error_ratio);
    list_missed([
        (rank >= RANK_CORRELATION_MIN, format!("{name}: rank correlation {rank:.3}; at least 0.9")),
        (
            it.median_error_ratio <= MEDIAN_ERROR_MAX,
            format!("{name}: median error {error:.1} %; at most 15 %"),
        ),
    ])
}
