//! Predicted and measured goodput over streams, with a line for each window and a panel for each
//! table: lines are predictions, rings are measurements.

use super::chart_panel::{AxisScale, ChartPanel};
use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN};
use super::figure_sheet::{FigureSheet, InkColour, TextAnchor};
use crate::number_format::format_rate;
use crate::prediction_text::{PredictionSheet, format_heading, group_cells};
use crate::scan_text::setting_format::format_window;
use longhaul_model::report::v1::PredictionReport;
use longhaul_model::report::v1::predict::{PredictionCell, PredictionPlan};
use std::collections::{BTreeMap, BTreeSet};

const WIDTH: f64 = 900.0;
const PANEL: f64 = 420.0;
const LEFT: f64 = 100.0;
const LEGEND: f64 = 170.0;
const MAX_PANELS: usize = 6;
/// The maximum number of lines that can be told apart.
const MAX_CURVES: usize = 16;

pub fn draw_prediction(predict: &PredictionReport) -> FigureSheet {
    let under = match &predict.plan.scan_id {
        Some(id) => {
            let id = figure_frame::shorten_name(id);
            format!("lines: predicted; rings: measured by the scan {id}")
        }
        None => String::from("lines: predicted; no scan to compare with"),
    };
    let tables = group_cells(predict);
    let tables = &tables[..tables.len().min(MAX_PANELS)];
    let height = HEAD + PANEL * tables.len().max(1) as f64 + FOOT;
    let title = "Predicted goodput against streams";
    let mut sheet = figure_frame::begin_figure(WIDTH, height, title, &under, &predict.run);
    if tables.is_empty() {
        figure_frame::draw_note(&mut sheet, "No predictions.");
    }
    // One scale, so that the panels are comparable.
    let cells = tables.iter().flat_map(|table| &table.cells);
    let rates = cells.flat_map(|cell| [Some(cell.goodput_bps), cell.measured_bps]);
    let most = rates.flatten().max().unwrap_or(0);
    let capacity = Some(predict.plan.path.capacity_bps).filter(|bps| bps / 2 < most);
    let up = AxisScale::rates("goodput", most.max(capacity.unwrap_or(0)) as f64);
    for (index, table) in tables.iter().enumerate() {
        let top = HEAD + PANEL * index as f64;
        sheet.heading((MARGIN, top + 14.0), format_heading(&predict.plan, table));
        let chart = draw_panel(&mut sheet, table, top, &up);
        if let Some(bps) = capacity {
            chart.draw_level(&mut sheet, bps as f64, &name_capacity(&predict.plan));
        }
    }
    sheet
}

/// Returns the capacity with its origin: a scan estimates it by the fastest cells that filled the
/// path, or knows a lower bound.
fn name_capacity(plan: &PredictionPlan) -> String {
    let rate = format_rate(plan.path.capacity_bps);
    match plan.path.origin.as_str() {
        origin if origin == "asked" || origin.ends_with("options") => format!("capacity {rate}"),
        origin if origin.contains("at least") => format!("capacity at least {rate}, by the scan"),
        _ => format!("capacity estimated by the scan: {rate}"),
    }
}

/// Draws the axes and lines of one table, and returns its panel.
fn draw_panel(
    sheet: &mut FigureSheet,
    table: &PredictionSheet,
    top: f64,
    up: &AxisScale,
) -> ChartPanel {
    let mut curves: BTreeMap<Option<u64>, Vec<&PredictionCell>> = BTreeMap::new();
    for cell in &table.cells {
        curves.entry(cell.setting.window_bytes).or_default().push(cell);
    }
    let streams: BTreeSet<u32> = table.cells.iter().map(|cell| cell.setting.streams).collect();
    let right = WIDTH - MARGIN - LEGEND;
    let chart = ChartPanel {
        from: (MARGIN + LEFT, top + 44.0),
        to: (right, top + PANEL - 62.0),
        across: AxisScale::streams(&streams.into_iter().collect::<Vec<_>>()),
        up: up.clone(),
    };
    chart.draw(sheet);
    sheet.faint_label((right + 24.0, top + 44.0), "window", TextAnchor::Left);
    let count = curves.len().min(MAX_CURVES);
    // The widest window comes first in the legend, because its line is usually the highest.
    for (index, (window_bytes, mut cells)) in curves.into_iter().take(count).enumerate() {
        cells.sort_by_key(|cell| cell.setting.streams);
        let ink = figure_colours::window_colour(window_bytes, index, count);
        draw_curve(sheet, &chart, &cells, ink);
        let y = top + 44.0 + 20.0 * (count - index) as f64;
        sheet.line(&[(right + 24.0, y), (right + 48.0, y)], ink, 2.0);
        sheet.label((right + 56.0, y), format_window(window_bytes), TextAnchor::Left);
    }
    chart
}

/// Draws the line of one window, from cells that ascend by streams.
fn draw_curve(
    sheet: &mut FigureSheet,
    chart: &ChartPanel,
    cells: &[&PredictionCell],
    ink: InkColour,
) {
    let at = |cell: &PredictionCell, bps: u64| {
        chart.at(f64::from(cell.setting.streams.max(1)), bps as f64)
    };
    let line: Vec<(f64, f64)> = cells.iter().map(|cell| at(cell, cell.goodput_bps)).collect();
    match line.as_slice() {
        [(x, y)] => sheet.line(&[(x - 8.0, *y), (x + 8.0, *y)], ink, 2.0),
        line => sheet.line(line, ink, 2.0),
    }
    for cell in cells {
        if let Some(bps) = cell.measured_bps {
            sheet.dot(at(cell, bps), 5.0, ink, false);
        }
    }
}
