//! A figure of goodput against streams: one line for each window, and a panel for each table.

use super::chart_panel::{AxisScale, ChartPanel};
use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN};
use super::figure_sheet::{FigureSheet, InkColour, TextAnchor};
use crate::number_format::format_rate;
use crate::scan_text::setting_format::format_window;
use longhaul_model::report::v1::RunInfo;
use std::collections::BTreeSet;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 420.0;
const LEFT: f64 = 100.0;
const LEGEND: f64 = 170.0;
/// The maximum number of lines that can be told apart.
const MAX_CURVES: usize = 16;

/// One setting on a line.
#[derive(Debug, Default)]
pub struct CurveMark {
    pub streams: u32,
    /// The rate on the line.
    pub bps: f64,
    /// The range of the repeats of a measured setting.
    pub range_bps: Option<[u64; 2]>,
    /// The measured rate beside a predicted line.
    pub ring_bps: Option<u64>,
}

/// The line of one window, ascending by streams.
pub struct WindowCurve {
    pub window_bytes: Option<u64>,
    pub marks: Vec<CurveMark>,
}

/// A dashed rate, named on the left or right.
pub struct RateLevel {
    pub name: &'static str,
    pub bps: f64,
}

pub struct CurvePanel {
    pub title: String,
    pub curves: Vec<WindowCurve>,
    pub level: Option<RateLevel>,
    /// Settings were measured: each has a dot on its line.
    pub dots: bool,
}

/// Draws the figure. `none`: the text without a panel.
pub fn draw_stream_curves(
    title: &str,
    under: &str,
    run: &RunInfo,
    panels: &[CurvePanel],
    none: &str,
) -> FigureSheet {
    let height = HEAD + PANEL * panels.len().max(1) as f64 + FOOT;
    let mut sheet = figure_frame::begin_figure(WIDTH, height, title, under, run);
    if panels.is_empty() {
        figure_frame::draw_note(&mut sheet, none);
    }
    for (index, panel) in panels.iter().enumerate() {
        let top = HEAD + PANEL * index as f64;
        sheet.heading((MARGIN, top + 14.0), panel.title.as_str());
        draw_panel(&mut sheet, panel, top);
    }
    sheet
}

fn draw_panel(sheet: &mut FigureSheet, panel: &CurvePanel, top: f64) {
    let curves = &panel.curves[..panel.curves.len().min(MAX_CURVES)];
    let marks = || curves.iter().flat_map(|curve| &curve.marks);
    let streams: BTreeSet<u32> = marks().map(|mark| mark.streams).collect();
    let streams: Vec<u32> = streams.into_iter().collect();
    let level = panel.level.iter().map(|level| level.bps);
    let most = marks().map(highest_rate).chain(level).fold(0.0, f64::max);
    let right = WIDTH - MARGIN - LEGEND;
    let chart = ChartPanel {
        from: (MARGIN + LEFT, top + 44.0),
        to: (right, top + PANEL - 62.0),
        across: AxisScale::streams(&streams),
        up: AxisScale::rates("goodput", most),
    };
    chart.draw(sheet);
    if let Some(level) = &panel.level {
        let name = format!("{} {}", level.name, format_rate(level.bps as u64));
        chart.draw_level(sheet, level.bps, &name);
    }
    sheet.faint_label((right + 24.0, top + 44.0), "window", TextAnchor::Left);
    // The widest window comes first in the legend, because its line is usually the highest.
    for (index, curve) in curves.iter().enumerate() {
        let ink = figure_colours::window_colour(curve.window_bytes, index, curves.len());
        draw_curve(sheet, &chart, curve, panel.dots, ink);
        let y = top + 44.0 + 20.0 * (curves.len() - index) as f64;
        sheet.line(&[(right + 24.0, y), (right + 48.0, y)], ink, 2.0);
        if panel.dots {
            sheet.dot((right + 36.0, y), 4.0, ink, true);
        }
        let name = format_window(curve.window_bytes);
        sheet.label((right + 56.0, y), name, TextAnchor::Left);
    }
}

/// Returns the highest rate that is drawn for a mark.
pub fn highest_rate(mark: &CurveMark) -> f64 {
    let range = mark.range_bps.map(|[_, high]| high);
    [range, mark.ring_bps].into_iter().flatten().fold(mark.bps, |most, bps| most.max(bps as f64))
}

fn draw_curve(
    sheet: &mut FigureSheet,
    chart: &ChartPanel,
    curve: &WindowCurve,
    dots: bool,
    ink: InkColour,
) {
    let at = |mark: &CurveMark, bps: f64| chart.at(f64::from(mark.streams.max(1)), bps);
    let line: Vec<(f64, f64)> = curve.marks.iter().map(|mark| at(mark, mark.bps)).collect();
    match line.as_slice() {
        [(x, y)] if !dots => sheet.line(&[(x - 8.0, *y), (x + 8.0, *y)], ink, 2.0),
        [_] => {}
        line => sheet.line(line, ink, 2.0),
    }
    for mark in &curve.marks {
        if dots {
            sheet.dot(at(mark, mark.bps), 4.0, ink, true);
        }
        if let Some(bps) = mark.ring_bps {
            sheet.dot(at(mark, bps as f64), 5.0, ink, false);
        }
        if let Some([low, high]) = mark.range_bps {
            let ends = [low, high].map(|bps| at(mark, bps as f64));
            sheet.line(&ends, ink, 1.0);
            for (x, y) in ends {
                sheet.line(&[(x - 4.0, y), (x + 4.0, y)], ink, 1.0);
            }
        }
    }
}
