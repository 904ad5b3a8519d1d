//! A scan compared with its prediction: cells, and the overall agreement.

use super::{PredictionSheet, prediction_table};
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{ABSENT, RateUnit, or_absent};
use crate::scan_text::setting_format;
use longhaul_model::report::v1::PredictionReport;
use longhaul_model::report::v1::predict::PredictionCell;

/// The maximum number of measured cells listed.
const MAX_LISTED_CELLS: usize = 64;

/// Writes the measured cells, if there are any.
pub fn write_measured_cells(page: &mut ReportDocument, sheet: &PredictionSheet) {
    let measured: Vec<&PredictionCell> =
        sheet.cells.iter().copied().filter(|c| c.measured_bps.is_some()).collect();
    if measured.is_empty() {
        return;
    }
    let greatest = measured.iter().filter_map(|c| c.measured_bps).max().unwrap_or(0);
    let unit = RateUnit::for_max(greatest);
    let rate = |bps: u64| format!("{} {}", unit.short(bps), unit.name);
    let setting = |cell: &PredictionCell| {
        let window = setting_format::format_window(cell.setting.window_bytes);
        format!("{} x {window}", cell.setting.streams)
    };
    let limiter =
        |cell: &PredictionCell| prediction_table::limiter_letter(cell.limited_by).to_string();
    let table = DocumentTable::from_rows(measured.iter().copied().take(MAX_LISTED_CELLS))
        .text("setting", setting)
        .number("measured", |cell| or_absent(cell.measured_bps, rate))
        .number("predicted", |cell| rate(cell.goodput_bps))
        .number("measured is", format_difference)
        .text("", limiter)
        .details(|cell| cell.meaning.clone())
        .finish();
    page.gap();
    page.table(table);
    if measured.len() > MAX_LISTED_CELLS {
        let more = measured.len() - MAX_LISTED_CELLS;
        page.paragraph(format!("and {more} more cells; `--json` lists all"));
    }
}

/// Formats a disagreement: `12 % less`, `3 % more`.
fn format_difference(cell: &PredictionCell) -> String {
    let Some(ratio) = cell.disagreement_ratio else {
        return ABSENT.to_owned();
    };
    let percent = (100.0 * ratio.abs()).round();
    match percent {
        0.0 => String::from("the same"),
        _ if ratio < 0.0 => format!("{percent:.0} % less"),
        _ => format!("{percent:.0} % more"),
    }
}

/// Writes the last line: the overall agreement of the prediction with the scan.
pub fn write_agreement(page: &mut ReportDocument, report: &PredictionReport) {
    let Some(agreement) = &report.analysis.agreement else {
        return;
    };
    let ranks = match agreement.rank_correlation {
        Some(ratio) => format!("rank correlation {ratio:.2} (Spearman)"),
        None => String::from("too few distinct cells for a rank correlation"),
    };
    page.gap();
    page.fact(
        "agreement",
        format!(
            "{} measured cells: {ranks}; median error of the prediction {:.0} %",
            agreement.cells,
            100.0 * agreement.median_error_ratio
        ),
    );
}
