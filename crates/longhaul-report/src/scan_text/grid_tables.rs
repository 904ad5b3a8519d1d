//! The tables of a grid: windows by streams, and goodput over streams, drawn.

use super::setting_format;
use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::goodput_picture::draw_shares;
use crate::number_format::{ABSENT, RateUnit, count_of};
use longhaul_model::report::v1::scan::{
    GoodputCurve, ScanCell, ScanConclusion, SettingChoice, TransferSetting,
};

/// The number of stream columns that fit.
const ACROSS: usize = 7;
/// The maximum width of a bar.
const MAX_BAR: usize = 32;
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
    let greatest = goodputs_of(conclusion).max().unwrap_or(0);
    let unit = RateUnit::for_max(greatest);
    for control in controls {
        let of_it = |curve: &&GoodputCurve| curve.congestion_control == *control;
        let curves: Vec<&GoodputCurve> = conclusion.curves.iter().filter(of_it).collect();
        page.gap();
        let name = control.as_deref().map_or_else(String::new, |name| format!(", {name}"));
        page.heading(3, format!("goodput in {}{name}: streams across", unit.name));
        for streams in streams_of(&curves).chunks(ACROSS) {
            write_grid_table(page, &curves, streams, conclusion, unit);
        }
        draw_curves(page, &curves, greatest, unit);
    }
    page.faint("* recommended, + highest goodput, - not measured");
    write_failed_cells(page, cells, conclusion.forward);
}

fn goodputs_of(conclusion: &ScanConclusion) -> impl Iterator<Item = u64> {
    let all = conclusion.curves.iter().flat_map(|curve| &curve.points);
    all.map(|point| point.goodput_bps)
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
    let is = |choice: &Option<SettingChoice>| {
        choice.as_ref().is_some_and(|c| is_setting_of(&c.setting, curve, streams))
    };
    let mark = match (is(&conclusion.recommended), is(&conclusion.best)) {
        (true, _) => '*',
        (_, true) => '+',
        _ => ' ',
    };
    format!("{text}{mark}")
}

fn is_setting_of(setting: &TransferSetting, curve: &GoodputCurve, streams: u32) -> bool {
    setting.window_bytes == curve.window_bytes
        && setting.congestion_control == curve.congestion_control
        && setting.streams == streams
}

/// Draws goodput over streams: one bar per number of streams, one line per window.
fn draw_curves(page: &mut ReportDocument, curves: &[&GoodputCurve], greatest: u64, unit: RateUnit) {
    if greatest == 0 {
        return;
    }
    page.heading(3, "goodput by number of streams, ascending");
    for curve in curves {
        let shares: Vec<f64> = curve
            .points
            .iter()
            .flat_map(|point| [point.goodput_bps as f64 / greatest as f64; 2])
            .take(MAX_BAR)
            .collect();
        let bars = draw_shares(&shares);
        let most = curve.points.iter().max_by_key(|point| point.goodput_bps);
        let most = most.map_or_else(String::new, |point| {
            let streams = count_of(u64::from(point.streams), "stream");
            format!("max {} {}, {streams}", unit.short(point.goodput_bps), unit.name)
        });
        let window = setting_format::format_window(curve.window_bytes);
        page.picture(window, format!("{bars}  {most}"));
    }
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
