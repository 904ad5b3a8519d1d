//! Predicted and measured goodput over streams: lines are predictions, rings are measurements.

use super::axes::Axes;
use super::colours;
use super::frame::{self, FOOT, HEAD, MARGIN, window};
use super::sheet::{Anchor, BLACK, GREY, Sheet};
use crate::render::figures::percent;
use longhaul_model::report::v1::Predict;
use longhaul_model::report::v1::predict::Cell;
use longhaul_model::units::Bytes;
use std::collections::BTreeMap;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 420.0;
const LEFT: f64 = 100.0;
const LEGEND: f64 = 170.0;
const MOST_CURVES: usize = 16;
const MOST_PANELS: usize = 6;

/// One congestion control, loss and buffer, as one table of the report.
type Table<'a> = (String, Vec<&'a Cell>);

pub fn sheet(predict: &Predict) -> Sheet {
    let tables = tables(predict);
    let height = HEAD + PANEL * tables.len().max(1) as f64 + FOOT;
    let mut sheet = Sheet::new(WIDTH, height);
    let under = "lines: predicted; rings: measured by the scan";
    let under = match &predict.plan.scan_id {
        Some(id) => format!("{under} {}", frame::short(id)),
        None => String::from("lines: predicted; no scan is laid beside it"),
    };
    frame::frame(
        &mut sheet,
        "Predicted goodput against streams",
        &under,
        &predict.run,
    );
    if tables.is_empty() {
        sheet.text(
            (MARGIN, HEAD + 20.0),
            "Nothing was predicted.",
            16.0,
            BLACK,
            Anchor::Left,
        );
    }
    for (index, (title, cells)) in tables.iter().enumerate() {
        let top = HEAD + PANEL * index as f64;
        sheet.text(
            (MARGIN, top + 14.0),
            title.as_str(),
            16.0,
            BLACK,
            Anchor::Left,
        );
        panel(&mut sheet, predict, cells, top);
    }
    sheet
}

fn tables(predict: &Predict) -> Vec<Table<'_>> {
    let mut tables: Vec<Table> = Vec::new();
    for cell in &predict.analysis.cells {
        let control = cell
            .setting
            .congestion_control
            .as_deref()
            .unwrap_or("default");
        let title = format!(
            "{}, loss {}, queue {}",
            frame::short(control),
            percent(cell.loss_ratio),
            Bytes(cell.buffer_bytes)
        );
        match tables.iter().position(|(known, _)| *known == title) {
            Some(place) => tables[place].1.push(cell),
            None if tables.len() < MOST_PANELS => tables.push((title, vec![cell])),
            None => {}
        }
    }
    tables
}

fn panel(sheet: &mut Sheet, predict: &Predict, cells: &[&Cell], top: f64) {
    let mut curves: BTreeMap<Option<u64>, Vec<&Cell>> = BTreeMap::new();
    for cell in cells {
        curves
            .entry(cell.setting.window_bytes)
            .or_default()
            .push(cell);
    }
    let mut streams: Vec<u32> = cells.iter().map(|c| c.setting.streams).collect();
    streams.sort_unstable();
    streams.dedup();
    let both = cells
        .iter()
        .flat_map(|c| [Some(c.goodput_bps), c.measured_bps]);
    let capacity = predict.plan.path.capacity_bps as f64;
    let most = both.flatten().map(|bps| bps as f64).fold(0.0, f64::max);
    let shown = Some(capacity).filter(|bps| *bps < 2.0 * most);
    let right = WIDTH - MARGIN - LEGEND;
    let corners = ((MARGIN + LEFT, top + 44.0), (right, top + PANEL - 62.0));
    let axes = Axes::new(
        corners.0,
        corners.1,
        streams,
        most.max(shown.unwrap_or(0.0)),
    );
    axes.draw(sheet);
    if let Some(bps) = shown {
        axes.level(sheet, bps, ("capacity", Anchor::Right));
    }
    sheet.text(
        (right + 24.0, top + 44.0),
        "window",
        13.0,
        GREY,
        Anchor::Left,
    );
    let count = curves.len().min(MOST_CURVES);
    for (index, (bytes, mut cells)) in curves.into_iter().take(MOST_CURVES).enumerate() {
        cells.sort_by_key(|c| c.setting.streams);
        let ink = colours::line(bytes, index, count);
        draw(sheet, &axes, &cells, ink);
        let y = top + 44.0 + 20.0 * (count - index) as f64;
        sheet.line(&[(right + 24.0, y), (right + 48.0, y)], ink, 2.0);
        sheet.text((right + 56.0, y), window(bytes), 13.0, BLACK, Anchor::Left);
    }
}

fn draw(sheet: &mut Sheet, axes: &Axes, cells: &[&Cell], ink: super::sheet::Ink) {
    let line: Vec<(f64, f64)> = cells
        .iter()
        .map(|c| axes.at(c.setting.streams, c.goodput_bps as f64))
        .collect();
    match line.as_slice() {
        [only] => sheet.line(&[(only.0 - 8.0, only.1), (only.0 + 8.0, only.1)], ink, 2.0),
        line => sheet.line(line, ink, 2.0),
    }
    for (cell, measured) in cells.iter().filter_map(|c| Some((c, c.measured_bps?))) {
        sheet.dot(
            axes.at(cell.setting.streams, measured as f64),
            5.0,
            ink,
            false,
        );
    }
}
