//! The tables of a grid: windows by streams.

use super::setting_format;
use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::{ABSENT, RateUnit};
use longhaul_model::report::v1::scan::{GoodputCurve, ScanCell, ScanConclusion, TransferSetting};

/// The number of stream columns that fit.
const ACROSS: usize = 7;
/// The maximum number of failed cells listed.
const MAX_FAILED_CELLS: usize = 5;

/// Writes the tables of one direction, one per congestion control.
pub fn write_grid(page: &mut ReportDocument, cells: &[ScanCell], conclusion: &ScanConclusion) {
    let mut controls: Vec<&Option<String>> = Vec::new();
    for curve in &conclusion.curves {
        if !controls.contains(&&curve.congestion_control) {
            controls.push(&curve.congestion_control);
        }
    }
    let points = conclusion.curves.iter().flat_map(|curve| &curve.points);
    let unit = RateUnit::for_max(points.map(|point| point.goodput_bps).max().unwrap_or(0));
    for control in controls {
        let of_it = |curve: &&GoodputCurve| curve.congestion_control == *control;
        let curves: Vec<&GoodputCurve> = conclusion.curves.iter().filter(of_it).collect();
        page.gap();
        let name = control.as_deref().map_or_else(String::new, |name| format!(", {name}"));
        page.heading(3, format!("goodput in {}{name}: streams across", unit.name));
        for streams in streams_of(&curves).chunks(ACROSS) {
            write_grid_table(page, &curves, streams, conclusion, unit);
        }
    }
    page.faint("* recommended, + highest goodput, - not measured");
    write_failed_cells(page, cells, conclusion.forward);
}

fn streams_of(curves: &[&GoodputCurve]) -> Vec<u32> {
    let all = curves.iter().flat_map(|curve| &curve.points);
    let mut streams: Vec<u32> = all.map(|point| point.streams).collect();
    streams.sort_unstable();
    streams.dedup();
    streams
}

fn write_grid_table(
    page: &mut ReportDocument,
    curves: &[&GoodputCurve],
    streams: &[u32],
    conclusion: &ScanConclusion,
    unit: RateUnit,
) {
    let across = streams.iter().map(|n| right(format!("{n} ")));
    let mut table = DocumentTable::new([left("window")].into_iter().chain(across));
    for curve in curves {
        let cells = streams.iter().map(|streams| format_cell(curve, *streams, conclusion, unit));
        let window = setting_format::format_window(curve.window_bytes);
        table.row([window].into_iter().chain(cells));
    }
    page.table(table);
}

fn format_cell(
    curve: &GoodputCurve,
    streams: u32,
    conclusion: &ScanConclusion,
    unit: RateUnit,
) -> String {
    let point = curve.points.iter().find(|point| point.streams == streams);
    let text = point.map_or_else(|| ABSENT.to_owned(), |point| unit.short(point.goodput_bps));
    let setting = TransferSetting {
        window_bytes: curve.window_bytes,
        streams,
        congestion_control: curve.congestion_control.clone(),
        pacing_bps: None,
    };
    let mark = setting_format::choice_mark(&setting, conclusion);
    format!("{text}{mark}")
}

/// Writes the failed cells with their reasons.
fn write_failed_cells(page: &mut ReportDocument, cells: &[ScanCell], forward: bool) {
    let all: Vec<(&ScanCell, &String)> = cells
        .iter()
        .filter(|cell| cell.forward == forward)
        .filter_map(|cell| Some((cell, cell.error.as_ref()?)))
        .collect();
    for (cell, error) in all.iter().take(MAX_FAILED_CELLS) {
        page.item(
            "  failed: ",
            format!("{}: {error}", setting_format::format_setting(&cell.setting)),
        );
    }
    if all.len() > MAX_FAILED_CELLS {
        let more = all.len() - MAX_FAILED_CELLS;
        page.paragraph(format!("  failed: {more} more; --json lists all"));
    }
}
