//! Error and interval coverage of each analysis method on series of known truth.

use super::markdown_table::{MarkdownTable, format_number};
use crate::BenchOutcome;

/// A fixed seed, so that the effect of a change of a method is visible.
const SEED: u64 = 1;

/// The number of simulated paths in each row of available bandwidth: each load twice, with senders
/// of two speeds.
const PATHS: usize = 10;

/// Returns the errors of each method, and those of capacity and available bandwidth as shares of the
/// capacity.
pub fn run_all() -> BenchOutcome {
    let tables = [
        fill_table("Accuracy of the methods", longhaul_accuracy::evaluate_estimators(SEED)),
        fill_table(
            "Accuracy of capacity and available bandwidth",
            longhaul_accuracy::evaluate_available(SEED, PATHS),
        ),
    ];
    BenchOutcome::new(&tables, Vec::new())
}

fn fill_table(title: &str, rows: Vec<longhaul_accuracy::AccuracyRow>) -> MarkdownTable {
    let columns = "method | cases | answered | median error | p90 error | \
         coverage of the 95 % interval";
    let mut table = MarkdownTable::new(title, columns);
    let percent = |ratio: f64| format!("{:.2} %", 100.0 * ratio);
    for row in rows {
        table.row(vec![
            row.method,
            row.cases.to_string(),
            row.answered.to_string(),
            percent(row.median_error_ratio),
            percent(row.p90_error_ratio),
            row.coverage_ratio.map_or_else(|| format_number(None, 0), percent),
        ]);
    }
    table
}
