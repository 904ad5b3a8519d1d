//! A panel of a chart: a value axis at the left, an axis below it, and positions of values on both.

use super::figure_frame::{count_ticks, round_ticks};
use super::figure_sheet::{FAINT, FigureSheet, GREY, InkColour, TextAnchor};
use crate::number_format::RateUnit;
use jiff::Timestamp;

/// The minimum distance of labels below a panel.
const MIN_LABEL_GAP: f64 = 22.0;
/// The number of labels on an axis of moments.
const MOMENT_LABELS: i64 = 5;

/// The values of an axis, with its labelled ticks.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisScale {
    title: String,
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<(f64, String)>,
}

impl AxisScale {
    /// Creates a linear scale from 0 to at least `most`, labelled in multiples of `unit`.
    pub fn from_zero(title: impl Into<String>, most: f64, unit: f64) -> AxisScale {
        AxisScale::linear(title, round_ticks(most / unit), unit)
    }

    fn linear(title: impl Into<String>, labels: Vec<f64>, unit: f64) -> AxisScale {
        AxisScale {
            title: title.into(),
            low: labels.first().copied().unwrap_or(0.0) * unit,
            high: labels.last().copied().unwrap_or(1.0) * unit,
            log: false,
            ticks: labels.into_iter().map(|label| (label * unit, format_tick(label))).collect(),
        }
    }

    /// Creates a scale of rates in bit/s from 0. The title is the unit, after `name` if there is one.
    pub fn rates(name: &str, most_bps: f64) -> AxisScale {
        let highest = round_ticks(most_bps).last().copied().unwrap_or(1.0);
        let unit = RateUnit::for_max(highest as u64);
        let title = if name.is_empty() { unit.name } else { &format!("{name}, {}", unit.name) };
        AxisScale::from_zero(title, most_bps, unit.bps)
    }

    /// Creates a scale from near the minimum, so that small changes of large values are visible.
    pub fn near_values(title: &str, least: f64, most: f64, unit: f64) -> AxisScale {
        let (least, most) = (least / unit, most / unit);
        let spread = (most - least).max(most * 0.02).max(1e-3);
        let step = round_ticks(spread).get(1).copied().unwrap_or(1.0);
        let begin = ((least - spread * 0.2) / step).floor().max(0.0);
        let labels =
            (0..=count_ticks((most - begin * step) / step)).map(|i| (begin + f64::from(i)) * step);
        AxisScale::linear(title, labels.collect(), unit)
    }

    /// Creates a logarithmic scale of ascending numbers of streams, each with a tick.
    pub fn streams(streams: &[u32]) -> AxisScale {
        let end = |streams: Option<&u32>| f64::from(streams.copied().unwrap_or(1).max(1));
        AxisScale {
            title: String::from("streams (log scale)"),
            // A margin at both sides keeps the points off the frame.
            low: end(streams.first()) / 1.3,
            high: end(streams.last()) * 1.3,
            log: true,
            ticks: streams.iter().map(|n| (f64::from((*n).max(1)), n.to_string())).collect(),
        }
    }

    /// Creates a scale of microseconds since the start, labelled in seconds.
    pub fn seconds(until_us: u64) -> AxisScale {
        let high = until_us.max(1) as f64;
        let mut scale = AxisScale { high, ..AxisScale::from_zero("seconds", high, 1e6) };
        scale.ticks.retain(|(us, _)| *us <= high);
        scale
    }

    /// Creates a scale of times in microseconds since 1970, labelled to a precision that suits
    /// their span.
    pub fn moments(first_us: i64, last_us: i64) -> AxisScale {
        const HOUR_US: i64 = 3_600_000_000;
        let span_us = last_us.saturating_sub(first_us);
        let form = match span_us {
            s if s < HOUR_US => "%H:%M:%S",
            s if s < 36 * HOUR_US => "%m-%d %H:%M",
            _ => "%Y-%m-%d",
        };
        let ticks = (0..MOMENT_LABELS).map(|label| {
            let at_us = first_us + span_us / (2 * MOMENT_LABELS) * (2 * label + 1);
            let at = Timestamp::from_microsecond(at_us);
            let text = at.map_or_else(|_| String::new(), |at| at.strftime(form).to_string());
            (at_us as f64, text)
        });
        AxisScale {
            title: String::from("UTC"),
            low: first_us as f64,
            high: last_us as f64,
            log: false,
            ticks: ticks.collect(),
        }
    }

    /// Returns the place of a value between the lower (0) and the upper end (1).
    fn fraction(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low).max(f64::MIN_POSITIVE)
        };
        part.clamp(0.0, 1.0)
    }
}

fn format_tick(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

/// A panel with its axes.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartPanel {
    /// The upper left and the lower right corner.
    pub from: (f64, f64),
    pub to: (f64, f64),
    pub across: AxisScale,
    pub up: AxisScale,
}

impl ChartPanel {
    pub fn at(&self, across: f64, up: f64) -> (f64, f64) {
        let (width, height) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        let x = self.from.0 + self.across.fraction(across) * width;
        (x, self.to.1 - self.up.fraction(up) * height)
    }

    /// Draws both axes.
    pub fn draw(&self, sheet: &mut FigureSheet) {
        self.draw_values(sheet);
        self.draw_labels_below(sheet);
    }

    /// Draws the axis at the left and its grid lines.
    pub fn draw_values(&self, sheet: &mut FigureSheet) {
        let (left, right) = (self.from.0, self.to.0);
        for (value, label) in &self.up.ticks {
            let (_, y) = self.at(0.0, *value);
            sheet.line(&[(left, y), (right, y)], FAINT, 1.0);
            sheet.label((left - 8.0, y), label, TextAnchor::Right);
        }
        sheet.line(&[(left, self.to.1), self.to], GREY, 1.0);
        let middle = (left - 62.0, f64::midpoint(self.from.1, self.to.1));
        sheet.faint_label(middle, &self.up.title, TextAnchor::Rotated);
    }

    /// Draws the ticks of the lower axis, with labels where there is room.
    pub fn draw_labels_below(&self, sheet: &mut FigureSheet) {
        let bottom = self.to.1;
        let mut free_from = f64::NEG_INFINITY;
        for (value, label) in &self.across.ticks {
            let (x, _) = self.at(*value, 0.0);
            sheet.line(&[(x, bottom), (x, bottom + 5.0)], GREY, 1.0);
            if x >= free_from {
                sheet.label((x, bottom + 16.0), label, TextAnchor::Middle);
                free_from = x + MIN_LABEL_GAP;
            }
        }
        let middle = (f64::midpoint(self.from.0, self.to.0), bottom + 36.0);
        sheet.faint_label(middle, &self.across.title, TextAnchor::Middle);
    }

    /// Draws a dashed level across the panel, with its name above it on the right.
    pub fn draw_level(&self, sheet: &mut FigureSheet, value: f64, name: &str) {
        let (_, y) = self.at(0.0, value);
        sheet.dashes((self.from.0, y), (self.to.0, y), GREY);
        sheet.faint_label((self.to.0 - 4.0, y - 9.0), name, TextAnchor::Right);
    }

    /// Shades the panel between two values of the lower axis.
    pub fn shade(&self, sheet: &mut FigureSheet, from: f64, to: f64, ink: InkColour) {
        let (left, right) = (self.at(from, 0.0).0, self.at(to, 0.0).0);
        sheet.fill((left, self.from.1), (right, self.to.1), ink);
    }
}
