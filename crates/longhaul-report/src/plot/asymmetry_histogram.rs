//! Histogram of the asymmetry of settings, (forward - reverse) / (forward + reverse).

use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN, round_ticks};
use super::figure_sheet::{BLACK, FAINT, FigureSheet, GREY, TextAnchor};
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::scan::{HistogramBin, ScanAsymmetry};

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
/// The maximum number of letters of a line across the figure.
const LINE_LETTERS: usize = 105;
const MAX_LINES: usize = 3;

pub fn draw_scan_asymmetry(scan: &ScanReport) -> FigureSheet {
    let mut sheet = FigureSheet::new(WIDTH, HEIGHT);
    let under = format!(
        "(forward - reverse) / (forward + reverse) of each setting; forward: {}",
        figure_frame::describe_ends(&scan.run, true)
    );
    figure_frame::draw_figure_frame(
        &mut sheet,
        "Asymmetry of the two directions",
        &under,
        &scan.run,
    );
    match &scan.analysis.asymmetry {
        Some(found) if !found.histogram.is_empty() => draw_asymmetry_histogram(&mut sheet, found),
        _ => sheet.text(
            (MARGIN, HEAD + 20.0),
            "No setting was measured in both directions.",
            16.0,
            BLACK,
            TextAnchor::Left,
        ),
    }
    sheet
}

/// Draws the histogram of runs matched in time.
pub fn draw_run_asymmetry(histogram: &[HistogramBin], median_ratio: f64) -> FigureSheet {
    let mut sheet = FigureSheet::new(WIDTH, HEIGHT - 120.0);
    sheet.text(
        (MARGIN, 24.0),
        "(forward - reverse) / (forward + reverse)",
        16.0,
        BLACK,
        TextAnchor::Left,
    );
    draw_bars(&mut sheet, histogram, median_ratio, "run pairs");
    sheet
}

/// The area of the histogram on its sheet.
struct HistogramArea {
    from: (f64, f64),
    to: (f64, f64),
    highest: f64,
}

impl HistogramArea {
    fn x(&self, ratio: f64) -> f64 {
        let share = f64::midpoint(ratio.clamp(-1.0, 1.0), 1.0);
        self.from.0 + share * (self.to.0 - self.from.0)
    }

    fn y(&self, settings: f64) -> f64 {
        self.to.1 - settings / self.highest.max(1.0) * (self.to.1 - self.from.1)
    }
}

fn draw_asymmetry_histogram(sheet: &mut FigureSheet, found: &ScanAsymmetry) {
    let bottom = draw_bars(sheet, &found.histogram, found.median_ratio, "settings");
    let cause = found.cause.as_deref().unwrap_or_default();
    for (index, line) in wrap_cause(cause).iter().enumerate() {
        let y = bottom + 64.0 + 18.0 * index as f64;
        sheet.text((MARGIN, y), line.as_str(), 14.0, BLACK, TextAnchor::Left);
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
    let mut ticks = round_ticks(f64::from(most.max(4)));
    ticks.retain(|t| t.fract() == 0.0);
    let place = HistogramArea {
        from: (MARGIN + LEFT, HEAD + 24.0),
        to: (WIDTH - MARGIN, HEIGHT - FOOT - 120.0),
        highest: ticks.last().copied().unwrap_or(1.0),
    };
    draw_histogram_axes(sheet, &place, &ticks, counted);
    for bin in histogram.iter().filter(|b| b.cells > 0) {
        let top = place.y(f64::from(bin.cells));
        let (from, to) = (place.x(bin.from_ratio) + 1.0, place.x(bin.to_ratio) - 1.0);
        sheet.fill((from, top), (to, place.to.1), figure_colours::viridis_colour(0.4));
    }
    draw_median(sheet, &place, median_ratio);
    place.to.1
}

fn draw_histogram_axes(
    sheet: &mut FigureSheet,
    place: &HistogramArea,
    ticks: &[f64],
    counted: &str,
) {
    let (left, right, bottom) = (place.from.0, place.to.0, place.to.1);
    for tick in ticks {
        let y = place.y(*tick);
        sheet.line(&[(left, y), (right, y)], FAINT, 1.0);
        sheet.text((left - 8.0, y), format!("{tick}"), 13.0, BLACK, TextAnchor::Right);
    }
    for fifth in -5..=5 {
        let ratio = f64::from(fifth) / 5.0;
        let x = place.x(ratio);
        sheet.line(&[(x, bottom), (x, bottom + 5.0)], GREY, 1.0);
        sheet.text((x, bottom + 16.0), format!("{ratio}"), 13.0, BLACK, TextAnchor::Middle);
    }
    sheet.line(&[(left, bottom), (right, bottom)], GREY, 1.0);
    for (x, text, anchor) in [
        (left, "reverse is faster", TextAnchor::Left),
        (place.x(0.0), "asymmetry", TextAnchor::Middle),
        (right, "forward is faster", TextAnchor::Right),
    ] {
        sheet.text((x, bottom + 38.0), text, 13.0, GREY, anchor);
    }
    let middle = f64::midpoint(place.from.1, bottom);
    sheet.text((MARGIN + 12.0, middle), counted, 13.0, GREY, TextAnchor::Rotated);
}

fn draw_median(sheet: &mut FigureSheet, place: &HistogramArea, ratio: f64) {
    let (x, top) = (place.x(ratio), place.from.1);
    sheet.dashes((x, top - 8.0), (x, place.to.1), BLACK);
    let (aside, anchor) =
        if ratio > 0.6 { (-6.0, TextAnchor::Right) } else { (6.0, TextAnchor::Left) };
    sheet.text((x + aside, top - 12.0), format!("median {ratio:+.2}"), 13.0, BLACK, anchor);
}

fn wrap_cause(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LINE_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(figure_frame::shorten_name(word)),
        }
    }
    lines.truncate(MAX_LINES);
    lines
}
