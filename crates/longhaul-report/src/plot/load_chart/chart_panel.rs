//! Panels that share one time axis: shading, grid lines, levels, and value scales.

use crate::plot::figure_frame::{AxisUnit, round_ticks};
use crate::plot::figure_sheet::{BLACK, FAINT, FigureSheet, GREY, InkColour, TextAnchor};
use longhaul_model::units::format_duration;
use std::time::Duration;

const SHADE: InkColour = InkColour(0xf1, 0xf1, 0xf5);

/// The time axis, from the left edge of every panel to the right one.
#[derive(Debug, Clone, Copy)]
pub struct TimeAxis {
    pub from: f64,
    pub to: f64,
    pub until_us: u64,
}

impl TimeAxis {
    pub fn at(self, at_us: u64) -> f64 {
        let part = at_us.min(self.until_us) as f64 / self.until_us as f64;
        self.from + part * (self.to - self.from)
    }

    pub fn shade(
        self,
        sheet: &mut FigureSheet,
        (top, high): (f64, f64),
        from_us: u64,
        until_us: u64,
    ) {
        let (left, right) = (self.at(from_us), self.at(until_us));
        sheet.fill((left, top), (right, top + high), SHADE);
    }

    /// Draws the seconds below the last panel.
    pub fn draw_labels(self, sheet: &mut FigureSheet, below: f64) {
        let seconds = self.until_us as f64 / 1e6;
        for tick in round_ticks(seconds).into_iter().filter(|tick| *tick <= seconds) {
            let x = self.at((tick * 1e6) as u64);
            sheet.line(&[(x, below), (x, below + 5.0)], GREY, 1.0);
            sheet.text((x, below + 16.0), format!("{tick}"), 13.0, BLACK, TextAnchor::Middle);
        }
        let middle = f64::midpoint(self.from, self.to);
        sheet.text((middle, below + 34.0), "seconds", 13.0, GREY, TextAnchor::Middle);
    }
}

/// The scale of the y axis.
pub struct ValueScale {
    name: String,
    log: bool,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl ValueScale {
    pub fn rates(most_bps: f64) -> ValueScale {
        let values = round_ticks(most_bps);
        let high = values.last().copied().unwrap_or(1.0);
        let unit = AxisUnit::for_rate(high);
        ValueScale {
            name: format!("goodput, {}", unit.name),
            log: false,
            low: 0.0,
            high,
            ticks: values.into_iter().map(|bps| (bps, unit.format_tick(bps))).collect(),
        }
    }

    /// Creates a scale of nanoseconds, shown as milliseconds.
    pub fn times(most_ns: f64) -> ValueScale {
        let values = round_ticks(most_ns / 1e6);
        let high = values.last().copied().unwrap_or(1.0) * 1e6;
        let label = |ms: f64| format!("{}", (ms * 1e6).round() / 1e6);
        ValueScale {
            name: "RTT, ms".to_owned(),
            log: false,
            low: 0.0,
            high,
            ticks: values.into_iter().map(|ms| (ms * 1e6, label(ms))).collect(),
        }
    }

    /// Creates a logarithmic scale of nanoseconds with ticks at 1, 2, 5, 10, …
    pub fn times_log(least_ns: f64, most_ns: f64) -> ValueScale {
        let decades =
            (least_ns / 1e6).log10().floor() as i32..=(most_ns / 1e6).log10().ceil() as i32;
        let round = decades.flat_map(|decade| {
            let power = 10f64.powi(decade);
            [1.0, 2.0, 5.0].map(|step| step * power)
        });
        let (low, high) = (least_ns * 0.8, most_ns * 1.2);
        let inside = round.filter(|ms| (low..=high).contains(&(ms * 1e6)));
        let label = |ms: f64| format!("{}", (ms * 1e6).round() / 1e6);
        ValueScale {
            name: "RTT, ms (log scale)".to_owned(),
            log: true,
            low,
            high,
            ticks: inside.map(|ms| (ms * 1e6, label(ms))).collect(),
        }
    }

    /// Creates a scale of ratios, shown in per cent.
    pub fn shares(most: f64) -> ValueScale {
        let values = round_ticks((most * 100.0).max(1.0));
        let high = values.last().copied().unwrap_or(1.0) / 100.0;
        ValueScale {
            name: "lost probes, %".to_owned(),
            log: false,
            low: 0.0,
            high,
            ticks: values
                .into_iter()
                .map(|percent| (percent / 100.0, format!("{}", (percent * 1e6).round() / 1e6)))
                .collect(),
        }
    }

    fn fraction(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        part.clamp(0.0, 1.0)
    }
}

/// A panel.
pub struct ChartPanel {
    time: TimeAxis,
    top: f64,
    bottom: f64,
    scale: ValueScale,
}

impl ChartPanel {
    pub fn new((time, top, high): (TimeAxis, f64, f64), scale: ValueScale) -> ChartPanel {
        ChartPanel { time, top, bottom: top + high, scale }
    }

    pub fn at(&self, at_us: u64, value: f64) -> (f64, f64) {
        (self.time.at(at_us), self.height(value))
    }

    fn height(&self, value: f64) -> f64 {
        self.bottom - self.scale.fraction(value) * (self.bottom - self.top)
    }

    pub fn draw(&self, sheet: &mut FigureSheet) {
        let TimeAxis { from, to, .. } = self.time;
        for (value, label) in &self.scale.ticks {
            let y = self.height(*value);
            sheet.line(&[(from, y), (to, y)], FAINT, 1.0);
            sheet.text((from - 8.0, y), label.as_str(), 13.0, BLACK, TextAnchor::Right);
        }
        sheet.line(&[(from, self.bottom), (to, self.bottom)], GREY, 1.0);
        let left = (from - 62.0, f64::midpoint(self.top, self.bottom));
        sheet.text(left, self.scale.name.as_str(), 13.0, GREY, TextAnchor::Rotated);
    }

    /// Draws a dashed level at a time across the panel, with its name.
    pub fn draw_level(&self, sheet: &mut FigureSheet, ns: f64, name: &str) {
        let y = self.height(ns);
        let TimeAxis { from, to, .. } = self.time;
        sheet.dashes((from, y), (to, y), GREY);
        let time = format_duration(Duration::from_micros((ns / 1e3) as u64));
        let at = (to - 4.0, y - 9.0);
        sheet.text(at, format!("{name} {time}"), 12.0, GREY, TextAnchor::Right);
    }
}
