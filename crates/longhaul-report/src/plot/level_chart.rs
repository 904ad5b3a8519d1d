//! Values of a path over time, with two shaded periods.

use super::chart_panel::{AxisScale, ChartPanel};
use super::figure_colours;
use super::figure_frame::{MARGIN, shorten_name};
use super::figure_sheet::{FigureSheet, InkColour, TextAnchor};
use longhaul_model::report::v1::comparison::TimePeriod;
use longhaul_model::report::v1::series::SeriesPoint;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 44.0;
/// The colours of the periods.
const BANDS: [InkColour; 2] = [InkColour(0xf1, 0xf1, 0xf5), InkColour(0xe6, 0xef, 0xf6)];

/// A named series of points.
pub struct ChartLine<'a> {
    pub name: String,
    pub points: &'a [SeriesPoint],
}

/// The quantity on the y axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueAxis {
    /// A rate in bit/s, from 0.
    Rate,
    /// A delay in µs, shown in ms, from near the minimum.
    Delay,
}

pub struct LevelChart<'a> {
    pub title: &'a str,
    pub lines: Vec<ChartLine<'a>>,
    pub value_axis: ValueAxis,
    /// The minimum extent of the time axis, so that figures of one path are comparable.
    pub span_us: Option<(i64, i64)>,
    /// The shaded periods, with their names.
    pub periods: Vec<(&'static str, TimePeriod)>,
}

/// Draws the chart. Returns `None` if there are no points.
pub fn draw_level_chart(course: &LevelChart) -> Option<FigureSheet> {
    let points = || course.lines.iter().flat_map(|line| line.points);
    let times = || points().map(|point| point.at_us);
    let (first, last) = (times().min()?, times().max()?);
    let (begin, end) = course.span_us.unwrap_or((first, last));
    let (first, last) = (first.min(begin), last.max(end));
    // A margin at both sides, also for a single point.
    let room = ((last - first) / 40).max(1_000_000);
    let most = points().map(|point| point.value).fold(0.0, f64::max);
    let least = points().map(|point| point.value).fold(f64::MAX, f64::min);
    let panel = ChartPanel {
        from: (MARGIN + LEFT, TOP),
        to: (WIDTH - MARGIN, HEIGHT - BOTTOM),
        across: AxisScale::moments(first - room, last + room),
        up: match course.value_axis {
            ValueAxis::Rate => AxisScale::rates("", most),
            ValueAxis::Delay => AxisScale::near_values("ms", least, most, 1e3),
        },
    };
    let mut sheet = FigureSheet::new(WIDTH, HEIGHT);
    sheet.heading((MARGIN, 20.0), course.title);
    draw_periods(&mut sheet, &panel, course);
    panel.draw(&mut sheet);
    for (index, line) in course.lines.iter().enumerate() {
        let share = index as f64 / course.lines.len().max(1) as f64;
        let ink = figure_colours::viridis_colour(0.62 * share + 0.1);
        for point in line.points {
            sheet.dot(panel.at(point.at_us as f64, point.value), 3.0, ink, true);
        }
        let x = WIDTH - MARGIN - 190.0 * (course.lines.len() - index) as f64;
        sheet.dot((x, 40.0), 4.0, ink, true);
        sheet.faint_label((x + 10.0, 40.0), shorten_name(&line.name), TextAnchor::Left);
    }
    Some(sheet)
}

fn draw_periods(sheet: &mut FigureSheet, panel: &ChartPanel, course: &LevelChart) {
    for ((name, period), ink) in course.periods.iter().zip(BANDS) {
        let (from, to) = (period.begin_us as f64, period.end_us as f64);
        let left = panel.at(from, 0.0).0;
        if panel.at(to, 0.0).0 - left < 1.0 {
            continue;
        }
        panel.shade(sheet, from, to, ink);
        sheet.faint_label((left + 4.0, TOP + 9.0), *name, TextAnchor::Left);
    }
}

#[cfg(test)]
mod tests;
