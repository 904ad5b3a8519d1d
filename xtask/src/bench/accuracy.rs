//! Error and interval coverage of each method of the analysis, as the analysis finds them itself
//! on series of known truth.

use super::table::{Table, number};
use longhaul_analysis::accuracy;

/// The same rows for ever, so that a change of a method shows.
const SEED: u64 = 1;

/// Simulated paths in each row of available bandwidth: each load twice, with senders of two speeds.
const PATHS: usize = 10;

/// One row for each method.
pub fn table() -> Table {
    filled("Accuracy of the methods", accuracy::rows(SEED))
}

/// Capacity and available bandwidth; errors are shares of the capacity.
pub fn available() -> Table {
    let title = "Accuracy of capacity and available bandwidth";
    filled(title, accuracy::available(SEED, PATHS))
}

fn filled(title: &str, rows: Vec<accuracy::Row>) -> Table {
    let columns = [
        "method",
        "cases",
        "answered",
        "median error",
        "p90 error",
        "coverage of the 95 % interval",
    ];
    let mut table = Table::new(title, &columns);
    let percent = |ratio: f64| format!("{:.2} %", 100.0 * ratio);
    for row in rows {
        table.row(vec![
            row.method.to_owned(),
            row.cases.to_string(),
            row.answered.to_string(),
            percent(row.median_error_ratio),
            percent(row.p90_error_ratio),
            row.coverage_ratio.map_or_else(|| number(None, 0), percent),
        ]);
    }
    table
}
