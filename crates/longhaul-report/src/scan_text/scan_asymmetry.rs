//! Comparison of the two directions of a scan.

use super::setting_format;
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::format_rate;
use crate::run_comparison::asymmetry_document::build_histogram;
use longhaul_analysis::throughput::limiter_text::limiter_label;
use longhaul_model::report::v1::scan::{AsymmetryCell, ScanAsymmetry};

/// The maximum number of settings listed.
const MAX_ROWS: usize = 24;
/// Writes the asymmetry of each setting, its histogram and its cause.
pub fn write_asymmetry(page: &mut ReportDocument, asymmetry: &ScanAsymmetry) {
    page.heading(3, "ASYMMETRY: (forward - reverse) / (forward + reverse)");
    page.fact("median", format!("{:+.3}", asymmetry.median_ratio));
    page.facts("cause", &asymmetry.cause);
    let limits = |cell: &AsymmetryCell| {
        let [one, other] = [cell.forward_limited_by, cell.reverse_limited_by].map(limiter_label);
        if one == other { one.to_owned() } else { format!("{one}/{other}") }
    };
    page.table(
        DocumentTable::from_rows(asymmetry.cells.iter().take(MAX_ROWS))
            .text("streams x window", |cell| setting_format::format_setting(&cell.setting))
            .number("forward", |cell| format_rate(cell.forward_bps))
            .number("reverse", |cell| format_rate(cell.reverse_bps))
            .number("asymmetry", |cell| format!("{:+.3}", cell.asymmetry_ratio))
            .text("limited by", limits)
            .finish(),
    );
    if asymmetry.cells.len() > MAX_ROWS {
        let more = asymmetry.cells.len() - MAX_ROWS;
        page.faint(format!("{more} more settings; --json lists all"));
    }
    if let Some(table) = build_histogram(&asymmetry.histogram) {
        page.gap();
        page.table(table);
    }
}
