//! Comparison of the two directions of a scan.

use super::setting_format;
use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::format_rate;
use crate::run_comparison::asymmetry_document::build_histogram;
use longhaul_model::report::v1::scan::ScanAsymmetry;

/// The maximum number of settings listed.
const MAX_ROWS: usize = 24;
/// Writes the asymmetry of each setting, its histogram and its cause.
pub fn write_asymmetry(page: &mut ReportDocument, asymmetry: &ScanAsymmetry) {
    page.heading(3, "ASYMMETRY: (forward - reverse) / (forward + reverse)");
    page.fact("median", format!("{:+.3}", asymmetry.median_ratio));
    if let Some(cause) = &asymmetry.cause {
        page.fact("cause", cause);
    }
    let mut table = DocumentTable::new([
        left("streams x window"),
        right("forward"),
        right("reverse"),
        right("asymmetry"),
        left("limited by"),
    ]);
    for cell in asymmetry.cells.iter().take(MAX_ROWS) {
        let limits = match (cell.forward_limited_by, cell.reverse_limited_by) {
            (one, other) if one == other => setting_format::limiter_label(one).to_owned(),
            (one, other) => format!(
                "{}/{}",
                setting_format::limiter_label(one),
                setting_format::limiter_label(other)
            ),
        };
        table.row([
            setting_format::format_setting(&cell.setting),
            format_rate(cell.forward_bps),
            format_rate(cell.reverse_bps),
            format!("{:+.3}", cell.asymmetry_ratio),
            limits,
        ]);
    }
    page.table(table);
    if asymmetry.cells.len() > MAX_ROWS {
        let more = asymmetry.cells.len() - MAX_ROWS;
        page.faint(format!("{more} more settings; --json lists all"));
    }
    if let Some(table) = build_histogram(&asymmetry.histogram) {
        page.gap();
        page.table(table);
    }
}
