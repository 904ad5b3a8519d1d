//! Error and interval coverage of each method of the analysis, as the analysis finds them itself
//! on series of known truth.

use super::table::{Table, number};
use longhaul_analysis::accuracy;

/// The same rows for ever, so that a change of a method shows.
const SEED: u64 = 1;

/// One row for each method.
pub fn table() -> Table {
    let columns = [
        "method",
        "cases",
        "answered",
        "median error",
        "p90 error",
        "coverage of the 95 % interval",
    ];
    let mut table = Table::new("Accuracy of the methods", &columns);
    let percent = |ratio: f64| format!("{:.2} %", 100.0 * ratio);
    for row in accuracy::rows(SEED) {
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
