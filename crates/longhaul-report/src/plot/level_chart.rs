//! Values of a path over time, with two shaded periods.

use super::figure_colours;
use super::figure_frame::{AxisUnit, MARGIN, round_ticks, shorten_name};
use super::figure_sheet::{BLACK, FAINT, FigureSheet, GREY, InkColour, TextAnchor};
use jiff::Timestamp;
use longhaul_model::report::v1::comparison::TimePeriod;
use longhaul_model::report::v1::series::SeriesPoint;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 44.0;
/// The colours of the periods.
const BANDS: [InkColour; 2] = [InkColour(0xf1, 0xf1, 0xf5), InkColour(0xe6, 0xef, 0xf6)];
const LABELS: i64 = 5;

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

/// Maps times and values to positions on the sheet.
struct LevelAxes {
    time: (i64, i64),
    values: (f64, f64),
}

impl LevelAxes {
    fn x(&self, at_us: i64) -> f64 {
        let span = (self.time.1 as f64 - self.time.0 as f64).max(1.0);
        let share = (at_us as f64 - self.time.0 as f64) / span;
        MARGIN + LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - 2.0 * MARGIN)
    }

    fn y(&self, value: f64) -> f64 {
        let span = (self.values.1 - self.values.0).max(f64::MIN_POSITIVE);
        let share = ((value - self.values.0) / span).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
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
    let ticks = value_ticks(course.value_axis, least, most);
    let axes =
        LevelAxes { time: (first - room, last + room), values: (*ticks.first()?, *ticks.last()?) };
    let mut sheet = FigureSheet::new(WIDTH, HEIGHT);
    sheet.text((MARGIN, 20.0), course.title, 16.0, BLACK, TextAnchor::Left);
    draw_periods(&mut sheet, &axes, course);
    draw_scales(&mut sheet, &axes, course.value_axis, &ticks);
    for (index, line) in course.lines.iter().enumerate() {
        let ink = figure_colours::viridis_colour(
            0.62 * index as f64 / course.lines.len().max(1) as f64 + 0.1,
        );
        for point in line.points {
            let at = (axes.x(point.at_us), axes.y(point.value));
            sheet.dot(at, 3.0, ink, true);
        }
        let x = WIDTH - MARGIN - 190.0 * (course.lines.len() - index) as f64;
        sheet.dot((x, 40.0), 4.0, ink, true);
        sheet.text((x + 10.0, 40.0), shorten_name(&line.name), 12.0, GREY, TextAnchor::Left);
    }
    Some(sheet)
}

/// Returns round values from the lower to the upper end.
fn value_ticks(upward: ValueAxis, least: f64, most: f64) -> Vec<f64> {
    match upward {
        ValueAxis::Rate => round_ticks(most),
        ValueAxis::Delay => {
            let spread = (most - least).max(most * 0.02).max(1.0);
            let step = round_ticks(spread).get(1).copied().unwrap_or(1.0);
            let begin = ((least - spread * 0.2) / step).floor().max(0.0);
            let count = ((most - begin * step) / step).ceil().max(1.0) as u32;
            (0..=count).map(|i| (begin + f64::from(i)) * step).collect()
        }
    }
}

fn draw_periods(sheet: &mut FigureSheet, axes: &LevelAxes, course: &LevelChart) {
    for ((name, period), ink) in course.periods.iter().zip(BANDS) {
        let (from, to) = (axes.x(period.begin_us), axes.x(period.end_us));
        if to - from < 1.0 {
            continue;
        }
        sheet.fill((from, TOP), (to, HEIGHT - BOTTOM), ink);
        sheet.text((from + 4.0, TOP + 9.0), *name, 12.0, GREY, TextAnchor::Left);
    }
}

fn draw_scales(sheet: &mut FigureSheet, axes: &LevelAxes, upward: ValueAxis, ticks: &[f64]) {
    let (left, right, bottom) = (MARGIN + LEFT, WIDTH - MARGIN, HEIGHT - BOTTOM);
    let unit = AxisUnit::for_rate(ticks.last().copied().unwrap_or(1.0));
    for tick in ticks {
        let y = axes.y(*tick);
        sheet.line(&[(left, y), (right, y)], FAINT, 1.0);
        let text = match upward {
            ValueAxis::Rate => unit.format_tick(*tick),
            ValueAxis::Delay => format!("{}", (tick / 10.0).round() / 100.0),
        };
        sheet.text((left - 8.0, y), text, 12.0, BLACK, TextAnchor::Right);
    }
    let name = match upward {
        ValueAxis::Rate => unit.name,
        ValueAxis::Delay => "ms",
    };
    let middle = f64::midpoint(TOP, bottom);
    sheet.text((MARGIN + 6.0, middle), name, 12.0, GREY, TextAnchor::Rotated);
    sheet.line(&[(left, bottom), (right, bottom)], GREY, 1.0);
    let span = axes.time.1 - axes.time.0;
    for label in 0..LABELS {
        let at_us = axes.time.0 + span / (LABELS - 1) * label;
        let anchor = match label {
            0 => TextAnchor::Left,
            l if l == LABELS - 1 => TextAnchor::Right,
            _ => TextAnchor::Middle,
        };
        let x = axes.x(at_us);
        sheet.line(&[(x, bottom), (x, bottom + 5.0)], GREY, 1.0);
        sheet.text((x, bottom + 16.0), format_time_label(at_us, span), 12.0, BLACK, anchor);
    }
    let under = (f64::midpoint(left, right), bottom + 34.0);
    sheet.text(under, "UTC", 12.0, GREY, TextAnchor::Middle);
}

/// Formats a time with a precision that suits the span of the axis.
fn format_time_label(at_us: i64, span_us: i64) -> String {
    const HOUR_US: i64 = 3_600_000_000;
    let form = match span_us {
        s if s < HOUR_US => "%H:%M:%S",
        s if s < 36 * HOUR_US => "%m-%d %H:%M",
        _ => "%Y-%m-%d",
    };
    Timestamp::from_microsecond(at_us)
        .map_or_else(|_| String::new(), |at| at.strftime(form).to_string())
}

#[cfg(test)]
mod tests;
