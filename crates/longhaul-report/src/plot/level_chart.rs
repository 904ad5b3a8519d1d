//! Values of a path over time, with two shaded periods: the figures of a case, with captions.

use super::chart_panel::{AxisScale, ChartPanel};
use super::figure_colours;
use super::figure_frame::{MARGIN, shorten_name};
use super::figure_sheet::{FigureSheet, InkColour, TextAnchor};
use longhaul_model::report::v1::QuantitySeries;
use longhaul_model::report::v1::case::{CaseReport, PathCase};
use longhaul_model::report::v1::quantity::PathQuantity;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 44.0;
/// The colours of the periods.
const BANDS: [InkColour; 2] = [InkColour(0xf1, 0xf1, 0xf5), InkColour(0xe6, 0xef, 0xf6)];

/// An SVG and its caption.
pub type CaptionedSvg = (String, String);

/// Draws throughput, available bandwidth and round trips of one path of a case.
pub fn draw_case_figures(case: &CaseReport, path: &PathCase) -> Vec<CaptionedSvg> {
    let wanted: [(&str, &[PathQuantity]); 3] = [
        ("Throughput", &[PathQuantity::Goodput]),
        ("Available bandwidth and capacity", &[PathQuantity::Available, PathQuantity::Capacity]),
        ("Min RTT of each run", &[PathQuantity::RttFloor]),
    ];
    let figures = wanted.into_iter().filter_map(|(title, quantities)| {
        let sheet = draw_level_chart(title, quantities, case, path)?;
        let caption = format!("{title}: every point is one run; the two periods are shaded.");
        Some((sheet.svg(), caption))
    });
    figures.collect()
}

/// Draws a chart of some quantities. Returns `None` if they have no points.
fn draw_level_chart(
    title: &str,
    quantities: &[PathQuantity],
    case: &CaseReport,
    path: &PathCase,
) -> Option<FigureSheet> {
    let ours = path.series.iter().filter(|series| quantities.contains(&series.quantity));
    let lines: Vec<&QuantitySeries> = ours.collect();
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.value);
    values().next()?;
    let panel = ChartPanel {
        from: (MARGIN + LEFT, TOP),
        to: (WIDTH - MARGIN, HEIGHT - BOTTOM),
        across: time_scale(path)?,
        up: value_scale(
            quantities,
            values().fold(f64::MAX, f64::min),
            values().fold(0.0, f64::max),
        ),
    };
    let mut sheet = FigureSheet::new(WIDTH, HEIGHT);
    sheet.heading((MARGIN, 20.0), title);
    draw_periods(&mut sheet, &panel, case);
    panel.draw(&mut sheet);
    for (index, line) in lines.iter().enumerate() {
        let share = index as f64 / lines.len() as f64;
        let ink = figure_colours::viridis_colour(0.62 * share + 0.1);
        for point in &line.points {
            sheet.dot(panel.at(point.at_us as f64, point.value), 3.0, ink, true);
        }
        let x = WIDTH - MARGIN - 190.0 * (lines.len() - index) as f64;
        sheet.dot((x, 40.0), 4.0, ink, true);
        let way = if line.pair == path.pair { "" } else { ", reverse" };
        let name = shorten_name(&format!("{}{way}", line.quantity.title()));
        sheet.faint_label((x + 10.0, 40.0), name, TextAnchor::Left);
    }
    Some(sheet)
}

/// Returns the time from the first to the last value of the path, of any quantity, so that its
/// figures are comparable.
fn time_scale(path: &PathCase) -> Option<AxisScale> {
    let points = path.series.iter().flat_map(|series| &series.points);
    let times = points.map(|point| point.at_us);
    let (first, last) = (times.clone().min()?, times.max()?);
    // A margin at both sides, also for a single point.
    let room = ((last - first) / 40).max(1_000_000);
    Some(AxisScale::moments(first - room, last + room))
}

/// Returns a scale of rates from 0, or of delays from near the minimum.
fn value_scale(quantities: &[PathQuantity], least: f64, most: f64) -> AxisScale {
    if quantities.contains(&PathQuantity::RttFloor) {
        AxisScale::near_values("ms", least, most, 1e3)
    } else {
        AxisScale::rates("", most)
    }
}

fn draw_periods(sheet: &mut FigureSheet, panel: &ChartPanel, case: &CaseReport) {
    let periods = [("before", case.before), ("after", case.after)];
    for ((name, period), ink) in periods.into_iter().zip(BANDS) {
        let (from, to) = (period.begin_us as f64, period.end_us as f64);
        let left = panel.at(from, 0.0).0;
        if panel.at(to, 0.0).0 - left < 1.0 {
            continue;
        }
        panel.shade(sheet, from, to, ink);
        sheet.faint_label((left + 4.0, TOP + 9.0), name, TextAnchor::Left);
    }
}

#[cfg(test)]
mod tests;
