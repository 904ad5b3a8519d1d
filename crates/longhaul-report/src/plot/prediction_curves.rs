//! Predicted and measured goodput over streams: lines are predictions, rings are measurements.

use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN, format_window_size};
use super::figure_sheet::{BLACK, FigureSheet, GREY, TextAnchor};
use super::stream_axes::StreamAxes;
use crate::number_format::format_percent;
use longhaul_model::report::v1::PredictionReport;
use longhaul_model::report::v1::predict::PredictionCell;
use longhaul_model::units::Bytes;
use std::collections::BTreeMap;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 420.0;
const LEFT: f64 = 100.0;
const LEGEND: f64 = 170.0;
const MAX_CURVES: usize = 16;
const MAX_PANELS: usize = 6;

/// One congestion control, loss and buffer, as one table of the report.
type PredictionTable<'a> = (String, Vec<&'a PredictionCell>);

pub fn draw_prediction(predict: &PredictionReport) -> FigureSheet {
    let tables = group_prediction_tables(predict);
    let height = HEAD + PANEL * tables.len().max(1) as f64 + FOOT;
    let mut sheet = FigureSheet::new(WIDTH, height);
    let under = "lines: predicted; rings: measured by the scan";
    let under = match &predict.plan.scan_id {
        Some(id) => format!("{under} {}", figure_frame::shorten_name(id)),
        None => String::from("lines: predicted; no scan to compare with"),
    };
    figure_frame::draw_figure_frame(
        &mut sheet,
        "Predicted goodput against streams",
        &under,
        &predict.run,
    );
    if tables.is_empty() {
        sheet.text((MARGIN, HEAD + 20.0), "No predictions.", 16.0, BLACK, TextAnchor::Left);
    }
    for (index, (title, cells)) in tables.iter().enumerate() {
        let top = HEAD + PANEL * index as f64;
        sheet.text((MARGIN, top + 14.0), title.as_str(), 16.0, BLACK, TextAnchor::Left);
        draw_prediction_panel(&mut sheet, predict, cells, top);
    }
    sheet
}

fn group_prediction_tables(predict: &PredictionReport) -> Vec<PredictionTable<'_>> {
    let mut tables: Vec<PredictionTable> = Vec::new();
    for cell in &predict.analysis.cells {
        let control = cell.setting.congestion_control.as_deref().unwrap_or("default");
        let title = format!(
            "{}, loss {}, queue {}",
            figure_frame::shorten_name(control),
            format_percent(cell.loss_ratio),
            Bytes(cell.buffer_bytes)
        );
        match tables.iter().position(|(known, _)| *known == title) {
            Some(place) => tables[place].1.push(cell),
            None if tables.len() < MAX_PANELS => tables.push((title, vec![cell])),
            None => {}
        }
    }
    tables
}

fn draw_prediction_panel(
    sheet: &mut FigureSheet,
    predict: &PredictionReport,
    cells: &[&PredictionCell],
    top: f64,
) {
    let mut curves: BTreeMap<Option<u64>, Vec<&PredictionCell>> = BTreeMap::new();
    for cell in cells {
        curves.entry(cell.setting.window_bytes).or_default().push(cell);
    }
    let mut streams: Vec<u32> = cells.iter().map(|c| c.setting.streams).collect();
    streams.sort_unstable();
    streams.dedup();
    let both = cells.iter().flat_map(|c| [Some(c.goodput_bps), c.measured_bps]);
    let capacity = predict.plan.path.capacity_bps as f64;
    let most = both.flatten().map(|bps| bps as f64).fold(0.0, f64::max);
    let shown = Some(capacity).filter(|bps| *bps < 2.0 * most);
    let right = WIDTH - MARGIN - LEGEND;
    let corners = ((MARGIN + LEFT, top + 44.0), (right, top + PANEL - 62.0));
    let axes = StreamAxes::new(corners.0, corners.1, streams, most.max(shown.unwrap_or(0.0)));
    axes.draw(sheet);
    if let Some(bps) = shown {
        axes.draw_level(sheet, bps, ("capacity", TextAnchor::Right));
    }
    sheet.text((right + 24.0, top + 44.0), "window", 13.0, GREY, TextAnchor::Left);
    let count = curves.len().min(MAX_CURVES);
    for (index, (bytes, mut cells)) in curves.into_iter().take(MAX_CURVES).enumerate() {
        cells.sort_by_key(|c| c.setting.streams);
        let ink = figure_colours::window_colour(bytes, index, count);
        draw_prediction_curve(sheet, &axes, &cells, ink);
        let y = top + 44.0 + 20.0 * (count - index) as f64;
        sheet.line(&[(right + 24.0, y), (right + 48.0, y)], ink, 2.0);
        sheet.text((right + 56.0, y), format_window_size(bytes), 13.0, BLACK, TextAnchor::Left);
    }
}

fn draw_prediction_curve(
    sheet: &mut FigureSheet,
    axes: &StreamAxes,
    cells: &[&PredictionCell],
    ink: super::figure_sheet::InkColour,
) {
    let line: Vec<(f64, f64)> =
        cells.iter().map(|c| axes.at(c.setting.streams, c.goodput_bps as f64)).collect();
    match line.as_slice() {
        [only] => sheet.line(&[(only.0 - 8.0, only.1), (only.0 + 8.0, only.1)], ink, 2.0),
        line => sheet.line(line, ink, 2.0),
    }
    for (cell, measured) in cells.iter().filter_map(|c| Some((c, c.measured_bps?))) {
        sheet.dot(axes.at(cell.setting.streams, measured as f64), 5.0, ink, false);
    }
}
