//! The tables of a grid: windows by streams, and goodput over streams, drawn.

use super::setting_format;
use crate::render::number_format::{ABSENT, RateUnit, count_of};
use crate::render::style::{FAINT, STRONG, paint};
use crate::render::text_page::{TextPage, WIDTH};
use longhaul_model::report::v1::scan::{
    GoodputCurve, ScanCell, ScanConclusion, SettingChoice, TransferSetting,
};

/// Widths of the window, and of each number of streams.
const WINDOW: usize = 10;
const COLUMN: usize = 10;
/// The number of stream columns that fit.
const ACROSS: usize = (WIDTH - WINDOW) / COLUMN;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The maximum number of failed cells listed.
const MAX_FAILED_CELLS: usize = 5;

/// Writes the tables of one direction, one per congestion control.
pub fn write_grid(page: &mut TextPage, cells: &[ScanCell], conclusion: &ScanConclusion) {
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
        page.blank();
        let name = control
            .as_deref()
            .map_or_else(String::new, |name| format!(", {name}"));
        page.heading(&format!("goodput in {}{name}: streams across", unit.name));
        for streams in streams_of(&curves).chunks(ACROSS) {
            write_grid_table(page, &curves, streams, conclusion, unit);
        }
        draw_curves(page, &curves, greatest, unit);
    }
    page.line(&paint(
        FAINT,
        "* recommended   + highest goodput   - not measured",
    ));
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
    page: &mut TextPage,
    curves: &[&GoodputCurve],
    streams: &[u32],
    conclusion: &ScanConclusion,
    unit: RateUnit,
) {
    let across = streams
        .iter()
        .map(|n| format!("{n:>width$} ", width = COLUMN - 1));
    let head: String = across.collect();
    let head = head.trim_end();
    page.line(&paint(STRONG, format!("{:<WINDOW$}{head}", "window")));
    for curve in curves {
        let cells: String = streams
            .iter()
            .map(|streams| format_cell(curve, *streams, conclusion, unit))
            .collect();
        page.line(&format!(
            "{:<WINDOW$}{cells}",
            setting_format::format_window(curve.window_bytes)
        ));
    }
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
        choice
            .as_ref()
            .is_some_and(|c| is_setting_of(&c.setting, curve, streams))
    };
    let mark = match (is(&conclusion.recommended), is(&conclusion.best)) {
        (true, _) => '*',
        (_, true) => '+',
        _ => ' ',
    };
    format!("{text:>width$}{mark}", width = COLUMN - 1)
}

fn is_setting_of(setting: &TransferSetting, curve: &GoodputCurve, streams: u32) -> bool {
    setting.window_bytes == curve.window_bytes
        && setting.congestion_control == curve.congestion_control
        && setting.streams == streams
}

/// Draws goodput over streams: one bar per number of streams, one line per window.
fn draw_curves(page: &mut TextPage, curves: &[&GoodputCurve], greatest: u64, unit: RateUnit) {
    if greatest == 0 {
        return;
    }
    page.blank();
    page.line(&paint(STRONG, "goodput by number of streams, ascending"));
    for curve in curves {
        let bars: String = curve
            .points
            .iter()
            .flat_map(|point| {
                let eighths = (point.goodput_bps as f64 / greatest as f64 * 8.0).round() as usize;
                [BLOCKS[eighths.clamp(1, 8)]; 2]
            })
            .take(WIDTH - WINDOW - 36)
            .collect();
        let most = curve.points.iter().max_by_key(|point| point.goodput_bps);
        let most = most.map_or_else(String::new, |point| {
            let streams = count_of(u64::from(point.streams), "stream");
            format!(
                "max {} {}, {streams}",
                unit.short(point.goodput_bps),
                unit.name
            )
        });
        page.line(&format!(
            "{:<WINDOW$}{bars}  {most}",
            setting_format::format_window(curve.window_bytes)
        ));
    }
}

/// Writes the failed cells with their reasons.
fn write_failed_cells(page: &mut TextPage, cells: &[ScanCell], forward: bool) {
    let all: Vec<(&ScanCell, &String)> = cells
        .iter()
        .filter(|cell| cell.forward == forward)
        .filter_map(|cell| Some((cell, cell.error.as_ref()?)))
        .collect();
    for (cell, error) in all.iter().take(MAX_FAILED_CELLS) {
        page.hanging_paragraph(
            "  failed: ",
            &format!("{}: {error}", setting_format::format_setting(&cell.setting)),
        );
    }
    if all.len() > MAX_FAILED_CELLS {
        let more = all.len() - MAX_FAILED_CELLS;
        page.line(&format!("  failed: {more} more; --json lists all"));
    }
}
