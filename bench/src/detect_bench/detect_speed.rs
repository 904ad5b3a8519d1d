//! The time of one analysis of a series.

use crate::markdown_table::{MarkdownTable, format_number, median, quantile};
use longhaul_accuracy::synthetic_series::{CADENCES, draw_series_set};
use longhaul_history::change_detection::{DetectionOptions, find_level_changes};
use longhaul_model::report::v1::quantity::PathQuantity;
use std::hint::black_box;
use std::time::Instant;

const SERIES: usize = 40;
const REPEATS: usize = 5;
const SEED: u64 = 9;

/// Uses the minimum of a few analyses of each series, which excludes other load.
pub fn measure_detect_time() -> MarkdownTable {
    let title = "Time of one look, ms (a release build)";
    let mut table = MarkdownTable::new(title, "series | samples | median | most");
    for cadence in &CADENCES {
        let all = draw_series_set(cadence, SERIES, SEED);
        let times: Vec<f64> = all
            .iter()
            .map(|case| {
                let looks = (0..REPEATS).map(|_| {
                    let begin = Instant::now();
                    black_box(find_level_changes(
                        &case.points,
                        PathQuantity::Goodput,
                        &DetectionOptions::default(),
                    ));
                    begin.elapsed().as_secs_f64() * 1e3
                });
                looks.fold(f64::MAX, f64::min)
            })
            .collect();
        table.row(vec![
            cadence.title.to_owned(),
            all[0].points.len().to_string(),
            format_number(median(&times), 2),
            format_number(quantile(&times, 1.0), 2),
        ]);
    }
    table
}
