//! Goodput by windows (rows) and streams (columns): a colour and a number for each cell.

use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN, describe_ends, shorten_name};
use super::figure_sheet::{BLACK, FAINT, FigureSheet, TextAnchor};
use crate::number_format::{RateUnit, format_micros};
use crate::scan_text::setting_format::{choice_mark, format_window};
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::scan::{GoodputCurve, ScanConclusion, TransferSetting};
use std::collections::BTreeSet;

const CELL: (f64, f64) = (72.0, 40.0);
/// The size of smaller cells, so that a wide grid fits a page.
const SMALL_CELL: (f64, f64) = (52.0, 34.0);
const MANY_COLUMNS: usize = 14;
/// The average width of a letter of the title, and of the line below it.
const TITLE_LETTER: f64 = 11.0;
const UNDER_LETTER: f64 = 7.6;
/// The width of the window labels and their axis title.
const LEFT: f64 = 110.0;
const PANEL_HEAD: f64 = 34.0;
const PANEL_FOOT: f64 = 58.0;
/// The maximum number of rows or columns; the rest of a larger grid is left out.
const MAX_LINES: usize = 48;

struct HeatGrid {
    windows: Vec<Option<u64>>,
    streams: Vec<u32>,
    cell: (f64, f64),
    unit: RateUnit,
    most_bps: f64,
}

pub fn draw_heat_map(scan: &ScanReport) -> FigureSheet {
    let panels = list_scan_panels(scan);
    let grid = build_heat_grid(scan, &panels);
    let across = grid.cell.0 * grid.streams.len() as f64;
    let down = grid.cell.1 * grid.windows.len() as f64;
    let panel_height = PANEL_HEAD + down + PANEL_FOOT;
    let title = format_title(scan);
    let under = format!(
        "{}; use: smallest within 2 % of best; ≈: best within noise; empty: not measured",
        grid.unit.name
    );
    let text_width = |text: &str, letter: f64| text.chars().count() as f64 * letter;
    let texts = text_width(&title, TITLE_LETTER).max(text_width(&under, UNDER_LETTER));
    let width = (LEFT + across).max(texts) + 2.0 * MARGIN;
    let height = HEAD + panel_height * panels.len().max(1) as f64 + FOOT;
    let mut sheet = figure_frame::begin_figure(width, height, &title, &under, &scan.run);
    if panels.is_empty() {
        figure_frame::draw_note(&mut sheet, "No probe succeeded.");
    }
    for (index, panel) in panels.iter().enumerate() {
        let top = HEAD + panel_height * index as f64;
        sheet.heading((MARGIN, top + 14.0), panel.title.as_str());
        let corner = (MARGIN + LEFT, top + PANEL_HEAD);
        draw_heat_axes(&mut sheet, &grid, corner);
        draw_heat_cells(&mut sheet, &grid, panel, corner);
    }
    sheet
}

/// Returns the hosts, and the minimum RTT of the idle path.
fn format_title(scan: &ScanReport) -> String {
    let [near, far] = [&scan.run.initiator, &scan.run.responder].map(|it| shorten_name(&it.host));
    let idle_us = scan.observation.cells.iter().filter_map(|cell| cell.idle_rtt_us).min();
    let rtt = idle_us.map_or_else(String::new, |us| format!(", RTT {}", format_micros(us)));
    format!("Goodput between {near} and {far}{rtt}")
}

/// Builds the grid. All panels share rows, columns and colours, so that they are comparable.
fn build_heat_grid(scan: &ScanReport, panels: &[ScanPanel]) -> HeatGrid {
    let curves = || panels.iter().flat_map(|p| &p.curves);
    let points = || curves().flat_map(|c| &c.points);
    let mut windows: BTreeSet<Option<u64>> = scan.plan.windows_bytes.iter().copied().collect();
    windows.extend(curves().map(|c| c.window_bytes));
    let mut streams: BTreeSet<u32> = scan.plan.streams.iter().copied().collect();
    streams.extend(points().map(|p| p.streams));
    let most_bps = points().map(|p| p.goodput_bps as f64).fold(0.0, f64::max);
    HeatGrid {
        // The widest window is at the top.
        windows: windows.into_iter().take(MAX_LINES).rev().collect(),
        cell: if streams.len() > MANY_COLUMNS { SMALL_CELL } else { CELL },
        streams: streams.into_iter().take(MAX_LINES).collect(),
        unit: RateUnit::for_max(most_bps as u64),
        most_bps,
    }
}

fn draw_heat_axes(sheet: &mut FigureSheet, grid: &HeatGrid, (left, top): (f64, f64)) {
    let (wide, high) = grid.cell;
    let bottom = top + high * grid.windows.len() as f64;
    for (row, bytes) in grid.windows.iter().enumerate() {
        let y = top + high * (row as f64 + 0.5);
        sheet.label((left - 8.0, y), format_window(*bytes), TextAnchor::Right);
    }
    for (column, streams) in grid.streams.iter().enumerate() {
        let x = left + wide * (column as f64 + 0.5);
        sheet.label((x, bottom + 14.0), streams.to_string(), TextAnchor::Middle);
    }
    let middle = left + wide * grid.streams.len() as f64 / 2.0;
    sheet.faint_label((middle, bottom + 36.0), "streams", TextAnchor::Middle);
    let aside = (MARGIN + 8.0, f64::midpoint(top, bottom));
    sheet.faint_label(aside, "window", TextAnchor::Rotated);
}

fn draw_heat_cells(
    sheet: &mut FigureSheet,
    grid: &HeatGrid,
    panel: &ScanPanel,
    (left, top): (f64, f64),
) {
    let (wide, high) = grid.cell;
    let mut marked = Vec::new();
    for (row, bytes) in grid.windows.iter().enumerate() {
        for (column, streams) in grid.streams.iter().enumerate() {
            let from = (left + wide * column as f64, top + high * row as f64);
            let to = (from.0 + wide - 2.0, from.1 + high - 2.0);
            let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
            let curve = panel.curves.iter().find(|c| c.window_bytes == *bytes);
            let Some(point) = curve.and_then(|c| c.points.iter().find(|p| p.streams == *streams))
            else {
                sheet.frame(from, to, FAINT, 1.0);
                continue;
            };
            let bps = point.goodput_bps as f64;
            let ground = figure_colours::viridis_colour(bps / grid.most_bps.max(1.0));
            sheet.fill(from, to, ground);
            let word = choice_label(panel, *bytes, *streams);
            let shift = if word.is_some() { 6.0 } else { 0.0 };
            let ink = figure_colours::contrasting_colour(ground);
            let at = (middle.0, middle.1 - shift);
            let like_best = word.is_none() && is_like_best(panel.found, point.goodput_bps);
            let sign = if like_best { "≈" } else { "" };
            let text = format!("{sign}{}", grid.unit.short(point.goodput_bps));
            sheet.text(at, text, 14.0, ink, TextAnchor::Middle);
            if let Some(word) = word {
                sheet.text((middle.0, middle.1 + 10.0), word, 12.0, ink, TextAnchor::Middle);
                marked.push((from, to));
            }
        }
    }
    // Marked last, so that no neighbour covers the marks.
    for (from, to) in marked {
        sheet.frame(from, to, BLACK, 3.0);
    }
}

/// Returns true if the goodput is within the interval of the best setting.
fn is_like_best(found: &ScanConclusion, goodput_bps: u64) -> bool {
    let interval = found.best.as_ref().and_then(|best| best.goodput_interval_bps);
    interval.is_some_and(|[low, _]| goodput_bps >= low)
}

fn choice_label(
    panel: &ScanPanel,
    window_bytes: Option<u64>,
    streams: u32,
) -> Option<&'static str> {
    let congestion_control = panel.control.map(str::to_owned);
    let setting = TransferSetting { window_bytes, streams, congestion_control, pacing_bps: None };
    match choice_mark(&setting, panel.found) {
        '*' => Some("use"),
        '+' => Some("best"),
        _ => None,
    }
}

const MAX_PANELS: usize = 6;

pub struct ScanPanel<'a> {
    pub title: String,
    pub found: &'a ScanConclusion,
    pub control: Option<&'a str>,
    pub curves: Vec<&'a GoodputCurve>,
}

pub fn list_scan_panels(scan: &ScanReport) -> Vec<ScanPanel<'_>> {
    let mut panels = Vec::new();
    for found in &scan.analysis.directions {
        let control_of = |curve: &'_ GoodputCurve| curve.congestion_control.clone();
        let controls: BTreeSet<Option<String>> = found.curves.iter().map(control_of).collect();
        for name in controls {
            let of_it = |curve: &&GoodputCurve| curve.congestion_control == name;
            let curves: Vec<&GoodputCurve> = found.curves.iter().filter(of_it).collect();
            let control = curves.first().and_then(|curve| curve.congestion_control.as_deref());
            let named = control.map_or(String::new(), |name| format!(", {}", shorten_name(name)));
            let title = format!("{}{named}", describe_ends(&scan.run, found.forward));
            panels.push(ScanPanel { title, found, control, curves });
        }
    }
    panels.truncate(MAX_PANELS);
    panels
}
