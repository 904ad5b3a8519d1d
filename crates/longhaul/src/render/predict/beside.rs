//! A scan compared with its prediction: cells, the worst disagreements, and the overall agreement.

use super::{Sheet, table};
use crate::render::figures::{ABSENT, RateUnit};
use crate::render::page::Page;
use crate::render::scan::words;
use crate::render::style::{FAINT, STRONG, paint};
use longhaul_model::report::v1::Predict;
use longhaul_model::report::v1::predict::Cell;

/// The maximum number of disagreements explained.
const TOLD_MOST: usize = 6;
/// The maximum number of measured cells listed.
const LISTED_MOST: usize = 64;

/// Writes the measured cells, if there are any.
pub fn block(page: &mut Page, sheet: &Sheet) {
    let measured: Vec<&Cell> = sheet
        .cells
        .iter()
        .copied()
        .filter(|c| c.measured_bps.is_some())
        .collect();
    if measured.is_empty() {
        return;
    }
    let greatest = measured
        .iter()
        .filter_map(|c| c.measured_bps)
        .max()
        .unwrap_or(0);
    let unit = RateUnit::for_greatest(greatest);
    page.blank();
    let head = format!(
        "{:<22}{:>16}{:>16}{:>16}",
        "setting", "measured", "predicted", "measured is"
    );
    page.line(&paint(STRONG, head));
    for cell in measured.iter().take(LISTED_MOST) {
        line(page, cell, unit);
    }
    if measured.len() > LISTED_MOST {
        let more = measured.len() - LISTED_MOST;
        page.line(&format!("and {more} more cells; `--csv FILE` has them all"));
    }
    meanings(page, measured);
}

fn line(page: &mut Page, cell: &Cell, unit: RateUnit) {
    let setting = format!(
        "{} x {}",
        cell.setting.streams,
        words::window(cell.setting.window_bytes)
    );
    let rate = |bps: u64| format!("{} {}", unit.short(bps), unit.name);
    let measured = cell.measured_bps.map_or_else(|| ABSENT.to_owned(), rate);
    page.line(&format!(
        "{setting:<22}{measured:>16}{:>16}{:>16} {}",
        rate(cell.goodput_bps),
        difference(cell),
        table::letter(cell.limited_by),
    ));
}

/// Formats a disagreement: `12 % less`, `3 % more`.
fn difference(cell: &Cell) -> String {
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

fn meanings(page: &mut Page, mut cells: Vec<&Cell>) {
    let size = |c: &&Cell| c.disagreement_ratio.unwrap_or(0.0).abs();
    cells.retain(|c| c.meaning.is_some());
    cells.sort_by(|a, b| size(b).total_cmp(&size(a)));
    if cells.is_empty() {
        return;
    }
    page.blank();
    for cell in cells.iter().take(TOLD_MOST) {
        let setting = words::short(&cell.setting);
        let meaning = cell.meaning.as_deref().unwrap_or_default();
        page.hanging("  ", &format!("{setting}, {}: {meaning}", difference(cell)));
    }
    if cells.len() > TOLD_MOST {
        let more = cells.len() - TOLD_MOST;
        page.line(&paint(FAINT, format!("  and {more} more that disagree")));
    }
}

/// Writes the last line: the overall agreement of the prediction with the scan.
pub fn agreement(page: &mut Page, report: &Predict) {
    let Some(agreement) = &report.analysis.agreement else {
        return;
    };
    let ranks = match agreement.rank_correlation {
        Some(ratio) => format!("ranks agree to {ratio:.2} (Spearman; 1 is the same order)"),
        None => String::from("too few different cells to compare ranks"),
    };
    page.blank();
    page.labelled(
        "agreement",
        &format!(
            "over {} measured cells {ranks}; the prediction is off by {:.0} % (median)",
            agreement.cells,
            100.0 * agreement.median_error_ratio
        ),
    );
}
