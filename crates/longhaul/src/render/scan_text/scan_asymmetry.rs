//! Comparison of the two directions of a scan.

use super::setting_format;
use crate::render::number_format::format_rate;
use crate::render::style::{FAINT, STRONG, paint};
use crate::render::text_page::TextPage;
use longhaul_model::report::v1::scan::{HistogramBin, ScanAsymmetry};

/// The maximum number of settings listed.
const MAX_ROWS: usize = 24;
/// Width of the longest bar of the histogram.
const BAR: u32 = 40;

/// Writes the asymmetry of each setting, its histogram and its cause.
pub fn write_asymmetry(page: &mut TextPage, asymmetry: &ScanAsymmetry) {
    page.heading("ASYMMETRY: (forward - reverse) / (forward + reverse)");
    page.label_line("median", &format!("{:+.3}", asymmetry.median_ratio));
    if let Some(cause) = &asymmetry.cause {
        page.label_line("cause", cause);
    }
    page.line(&paint(
        STRONG,
        format!(
            "{:<22}{:>15}{:>16}{:>8}  limited by",
            "streams x window", "forward", "reverse", ""
        ),
    ));
    for cell in asymmetry.cells.iter().take(MAX_ROWS) {
        let limits = match (cell.forward_limited_by, cell.reverse_limited_by) {
            (one, other) if one == other => setting_format::limiter_label(one).to_owned(),
            (one, other) => format!(
                "{}/{}",
                setting_format::limiter_label(one),
                setting_format::limiter_label(other)
            ),
        };
        let row = format!(
            "{:<22}{:>15}{:>16}{:>+8.3}  ",
            setting_format::format_setting(&cell.setting),
            format_rate(cell.forward_bps),
            format_rate(cell.reverse_bps),
            cell.asymmetry_ratio
        );
        page.hanging_paragraph(&row, &limits);
    }
    if asymmetry.cells.len() > MAX_ROWS {
        let more = asymmetry.cells.len() - MAX_ROWS;
        page.line(&paint(
            FAINT,
            format!("{more} more settings; --json lists all"),
        ));
    }
    write_histogram(page, &asymmetry.histogram);
}

fn write_histogram(page: &mut TextPage, bins: &[HistogramBin]) {
    let most = bins.iter().map(|bin| bin.cells).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    page.blank();
    page.line(&paint(STRONG, format!("{:<18}{:>6}", "asymmetry", "cells")));
    // Empty bins at both ends are omitted.
    let taken = |bin: &HistogramBin| bin.cells > 0;
    let first = bins.iter().position(taken).unwrap_or(0);
    let last = bins.iter().rposition(taken).unwrap_or(0);
    for bin in &bins[first..=last] {
        let range = format!("{:+.1} to {:+.1}", bin.from_ratio, bin.to_ratio);
        let bar =
            "#".repeat((u64::from(bin.cells) * u64::from(BAR)).div_ceil(u64::from(most)) as usize);
        page.line(&format!("{range:<18}{:>6}  {bar}", bin.cells));
    }
}
