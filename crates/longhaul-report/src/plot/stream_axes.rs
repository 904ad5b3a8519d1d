//! A panel with goodput on the y axis from zero, and streams on a logarithmic x axis.

use super::figure_frame::{AxisUnit, round_ticks};
use super::figure_sheet::{BLACK, FAINT, FigureSheet, GREY, TextAnchor};

/// The minimum distance of labels.
const MIN_LABEL_GAP: f64 = 22.0;

pub struct StreamAxes {
    /// The upper left and the lower right corner.
    from: (f64, f64),
    to: (f64, f64),
    /// The log2 of the minimum and the maximum number of streams.
    range: (f64, f64),
    streams: Vec<u32>,
    ticks: Vec<f64>,
    unit: AxisUnit,
}

impl StreamAxes {
    /// Creates the axes. `streams` must be ascending.
    pub fn new(from: (f64, f64), to: (f64, f64), streams: Vec<u32>, most_bps: f64) -> StreamAxes {
        let log = |s: Option<&u32>| f64::from(s.copied().unwrap_or(1).max(1)).log2();
        let (least, most) = (log(streams.first()), log(streams.last()));
        // A margin on both sides keeps the points off the frame.
        let range = (least - 0.4, most.max(least) + 0.4);
        let ticks = round_ticks(most_bps);
        let unit = AxisUnit::for_rate(ticks.last().copied().unwrap_or(1.0));
        StreamAxes { from, to, range, streams, ticks, unit }
    }

    pub fn at(&self, streams: u32, bps: f64) -> (f64, f64) {
        let place = f64::from(streams.max(1)).log2();
        let across = (place - self.range.0) / (self.range.1 - self.range.0);
        (self.from.0 + across * (self.to.0 - self.from.0), self.height(bps))
    }

    pub fn height(&self, bps: f64) -> f64 {
        let most = self.ticks.last().copied().unwrap_or(1.0);
        self.to.1 - (bps / most).clamp(0.0, 1.0) * (self.to.1 - self.from.1)
    }

    pub fn draw(&self, sheet: &mut FigureSheet) {
        for tick in &self.ticks {
            let y = self.height(*tick);
            sheet.line(&[(self.from.0, y), (self.to.0, y)], FAINT, 1.0);
            sheet.text(
                (self.from.0 - 8.0, y),
                self.unit.format_tick(*tick),
                13.0,
                BLACK,
                TextAnchor::Right,
            );
        }
        let mut free_from = f64::NEG_INFINITY;
        for streams in &self.streams {
            let (x, _) = self.at(*streams, 0.0);
            sheet.line(&[(x, self.to.1), (x, self.to.1 + 5.0)], GREY, 1.0);
            if x >= free_from {
                sheet.text(
                    (x, self.to.1 + 16.0),
                    streams.to_string(),
                    13.0,
                    BLACK,
                    TextAnchor::Middle,
                );
                free_from = x + MIN_LABEL_GAP;
            }
        }
        sheet.line(&[(self.from.0, self.to.1), self.to], GREY, 1.0);
        let middle = (f64::midpoint(self.from.0, self.to.0), self.to.1 + 36.0);
        sheet.text(middle, "streams (log scale)", 13.0, GREY, TextAnchor::Middle);
        let title = format!("goodput, {}", self.unit.name);
        let left = (self.from.0 - 62.0, f64::midpoint(self.from.1, self.to.1));
        sheet.text(left, title, 13.0, GREY, TextAnchor::Rotated);
    }

    /// Draws a dashed level across the panel, with its name above it on the left or right.
    pub fn draw_level(&self, sheet: &mut FigureSheet, bps: f64, (name, side): (&str, TextAnchor)) {
        let y = self.height(bps);
        sheet.dashes((self.from.0, y), (self.to.0, y), GREY);
        let text = format!("{name} {} {}", self.unit.format_value(bps), self.unit.name);
        let x = match side {
            TextAnchor::Left => self.from.0 + 4.0,
            _ => self.to.0 - 4.0,
        };
        sheet.text((x, y - 9.0), text, 12.0, GREY, side);
    }
}
