//! Histogram of the asymmetry of settings, (forward - reverse) / (forward + reverse).

use super::chart_panel::{AxisScale, ChartPanel};
use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN};
use super::figure_sheet::{BLACK, FigureSheet, TextAnchor};
use crate::text_page::wrap_text;
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::scan::{HistogramBin, ScanAsymmetry};

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
/// The maximum number of letters of a line across the figure.
const LINE_LETTERS: usize = 105;
const MAX_LINES: usize = 3;

pub fn draw_scan_asymmetry(scan: &ScanReport) -> FigureSheet {
    let under = format!(
        "(forward - reverse) / (forward + reverse) of each setting; forward: {}",
        figure_frame::describe_ends(&scan.run, true)
    );
    let title = "Asymmetry of the two directions";
    let mut sheet = figure_frame::begin_figure(WIDTH, HEIGHT, title, &under, &scan.run);
    match &scan.analysis.asymmetry {
        Some(found) if !found.histogram.is_empty() => draw_asymmetry_histogram(&mut sheet, found),
        _ => {
            figure_frame::draw_note(&mut sheet, "No setting was measured in both directions.");
        }
    }
    sheet
}

/// Draws the histogram of runs matched in time.
pub fn draw_run_asymmetry(histogram: &[HistogramBin], median_ratio: f64) -> FigureSheet {
    let mut sheet = FigureSheet::new(WIDTH, HEIGHT - 120.0);
    sheet.heading((MARGIN, 24.0), "(forward - reverse) / (forward + reverse)");
    draw_bars(&mut sheet, histogram, median_ratio, "run pairs");
    sheet
}

fn draw_asymmetry_histogram(sheet: &mut FigureSheet, found: &ScanAsymmetry) {
    let bottom = draw_bars(sheet, &found.histogram, found.median_ratio, "settings");
    let cause = wrap_text(found.cause.as_deref().unwrap_or_default(), LINE_LETTERS);
    for (index, line) in cause.iter().take(MAX_LINES).enumerate() {
        let y = bottom + 64.0 + 18.0 * index as f64;
        sheet.label((MARGIN, y), line.as_str(), TextAnchor::Left);
    }
}

/// Draws the bars, and returns the lower edge of the histogram.
fn draw_bars(
    sheet: &mut FigureSheet,
    histogram: &[HistogramBin],
    median_ratio: f64,
    counted: &str,
) -> f64 {
    let most = histogram.iter().map(|b| b.cells).max().unwrap_or(0);
    let panel = ChartPanel {
        from: (MARGIN + LEFT, HEAD + 24.0),
        to: (WIDTH - MARGIN, HEIGHT - FOOT - 120.0),
        across: AxisScale::asymmetries(),
        up: AxisScale::counts(counted, most),
    };
    panel.draw(sheet);
    let ((left, top), (right, bottom)) = (panel.from, panel.to);
    sheet.faint_label((left, bottom + 36.0), "reverse is faster", TextAnchor::Left);
    sheet.faint_label((right, bottom + 36.0), "forward is faster", TextAnchor::Right);
    for bin in histogram.iter().filter(|b| b.cells > 0) {
        let (from, high) = panel.at(bin.from_ratio, f64::from(bin.cells));
        let (to, low) = panel.at(bin.to_ratio, 0.0);
        let ink = figure_colours::viridis_colour(0.4);
        sheet.fill((from + 1.0, high), (to - 1.0, low), ink);
    }
    let (x, _) = panel.at(median_ratio, 0.0);
    sheet.dashes((x, top - 8.0), (x, bottom), BLACK);
    let (aside, anchor) =
        if median_ratio > 0.6 { (-6.0, TextAnchor::Right) } else { (6.0, TextAnchor::Left) };
    sheet.label((x + aside, top - 12.0), format!("median {median_ratio:+.2}"), anchor);
    bottom
}
