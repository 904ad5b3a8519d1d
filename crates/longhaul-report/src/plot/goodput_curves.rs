//! Goodput against streams: one line for each window, with the range of its repeats.

use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN, format_window_size};
use super::figure_sheet::{BLACK, FigureSheet, GREY, TextAnchor};
use super::stream_axes::StreamAxes;
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{GoodputCurve, ScanConclusion};
use std::collections::BTreeSet;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 420.0;
const LEFT: f64 = 100.0;
const LEGEND: f64 = 170.0;
/// The maximum number of lines that can be told apart.
const MAX_CURVES: usize = 16;
const MAX_PANELS: usize = 6;

pub fn draw_goodput_curves(scan: &ScanReport) -> FigureSheet {
    let panels = list_curve_panels(scan);
    let height = HEAD + PANEL * panels.len().max(1) as f64 + FOOT;
    let mut sheet = FigureSheet::new(WIDTH, height);
    let under = "median of each setting; bars: min to max of its repeats";
    figure_frame::draw_figure_frame(&mut sheet, "Goodput against streams", under, &scan.run);
    if panels.is_empty() {
        sheet.text((MARGIN, HEAD + 20.0), "No probe succeeded.", 16.0, BLACK, TextAnchor::Left);
    }
    for (index, (found, control)) in panels.iter().enumerate() {
        let top = HEAD + PANEL * index as f64;
        let named =
            control.map_or(String::new(), |name| format!(", {}", figure_frame::shorten_name(name)));
        let title = format!("{}{named}", figure_frame::describe_ends(&scan.run, found.forward));
        sheet.text((MARGIN, top + 14.0), title, 16.0, BLACK, TextAnchor::Left);
        draw_curve_panel(&mut sheet, scan, (found, *control), top);
    }
    sheet
}

fn list_curve_panels(scan: &ScanReport) -> Vec<(&ScanConclusion, Option<&str>)> {
    let mut panels = Vec::new();
    for found in &scan.analysis.directions {
        let controls: BTreeSet<Option<&str>> =
            found.curves.iter().map(|c| c.congestion_control.as_deref()).collect();
        panels.extend(controls.into_iter().map(|control| (found, control)));
    }
    panels.truncate(MAX_PANELS);
    panels
}

fn draw_curve_panel(
    sheet: &mut FigureSheet,
    scan: &ScanReport,
    (found, control): (&ScanConclusion, Option<&str>),
    top: f64,
) {
    let of_it = |c: &&GoodputCurve| c.congestion_control.as_deref() == control;
    let curves: Vec<&GoodputCurve> = found.curves.iter().filter(of_it).take(MAX_CURVES).collect();
    let points = || curves.iter().flat_map(|c| &c.points);
    let streams: BTreeSet<u32> = points().map(|p| p.streams).collect();
    let top_tenth = found.top_tenth.as_ref().map(|t| t.goodput_bps as f64);
    let seen = points().map(|p| p.range_bps.map_or(p.goodput_bps, |r| r[1]) as f64);
    let most = seen.chain(top_tenth).fold(0.0, f64::max);
    let capacity = median_capacity(scan, found.forward).filter(|bps| *bps < 2.0 * most);
    let right = WIDTH - MARGIN - LEGEND;
    let axes = StreamAxes::new(
        (MARGIN + LEFT, top + 44.0),
        (right, top + PANEL - 62.0),
        streams.into_iter().collect(),
        most.max(capacity.unwrap_or(0.0)),
    );
    axes.draw(sheet);
    if let Some(bps) = top_tenth {
        axes.draw_level(sheet, bps, ("top 10 % above", TextAnchor::Right));
    }
    if let Some(bps) = capacity {
        axes.draw_level(sheet, bps, ("path capacity from probes", TextAnchor::Left));
    }
    sheet.text((right + 24.0, top + 44.0), "window", 13.0, GREY, TextAnchor::Left);
    // The widest window comes first in the legend, because its line is usually the highest.
    for (index, curve) in curves.iter().enumerate() {
        let ink = figure_colours::window_colour(curve.window_bytes, index, curves.len());
        draw_curve(sheet, &axes, curve, ink);
        let y = top + 44.0 + 20.0 * (curves.len() - index) as f64;
        sheet.line(&[(right + 24.0, y), (right + 48.0, y)], ink, 2.0);
        sheet.dot((right + 36.0, y), 4.0, ink, true);
        sheet.text(
            (right + 56.0, y),
            format_window_size(curve.window_bytes),
            13.0,
            BLACK,
            TextAnchor::Left,
        );
    }
}

fn draw_curve(
    sheet: &mut FigureSheet,
    axes: &StreamAxes,
    curve: &GoodputCurve,
    ink: super::figure_sheet::InkColour,
) {
    let at =
        |p: &longhaul_model::report::v1::scan::CurvePoint| axes.at(p.streams, p.goodput_bps as f64);
    let line: Vec<(f64, f64)> = curve.points.iter().map(at).collect();
    if line.len() > 1 {
        sheet.line(&line, ink, 2.0);
    }
    for point in &curve.points {
        let (x, y) = at(point);
        sheet.dot((x, y), 4.0, ink, true);
        if let Some([low, high]) = point.range_bps {
            let (from, to) = (axes.height(low as f64), axes.height(high as f64));
            sheet.line(&[(x, from), (x, to)], ink, 1.0);
            for y in [from, to] {
                sheet.line(&[(x - 4.0, y), (x + 4.0, y)], ink, 1.0);
            }
        }
    }
}

/// Returns the median of the path capacities that the probes give as their next limit.
fn median_capacity(scan: &ScanReport, forward: bool) -> Option<f64> {
    let cells = scan.observation.cells.iter().filter(|c| c.forward == forward);
    let bounds = cells.filter_map(|c| c.next_limit.as_ref());
    let mut rates: Vec<u64> =
        bounds.filter(|b| b.limiter == Limiter::PathCapacity).map(|b| b.rate_bps).collect();
    rates.sort_unstable();
    rates.get(rates.len() / 2).map(|bps| *bps as f64)
}
