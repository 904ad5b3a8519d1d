//! The tables of a grid: windows by streams, and goodput over streams, drawn.

use super::words;
use crate::render::figures::{ABSENT, RateUnit, count_of};
use crate::render::page::{Page, WIDTH};
use crate::render::style::{FAINT, STRONG, paint};
use longhaul_model::report::v1::scan::{Cell, Choice, Conclusion, Curve, Setting};

/// Widths of the window, and of each number of streams.
const WINDOW: usize = 10;
const COLUMN: usize = 10;
/// The number of stream columns that fit.
const ACROSS: usize = (WIDTH - WINDOW) / COLUMN;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The maximum number of failed cells listed.
const FAILED_MOST: usize = 5;

/// Writes the tables of one direction, one per congestion control.
pub fn block(page: &mut Page, cells: &[Cell], conclusion: &Conclusion) {
    let mut controls: Vec<&Option<String>> = Vec::new();
    for curve in &conclusion.curves {
        if !controls.contains(&&curve.congestion_control) {
            controls.push(&curve.congestion_control);
        }
    }
    let greatest = points(conclusion).max().unwrap_or(0);
    let unit = RateUnit::for_greatest(greatest);
    for control in controls {
        let of_it = |curve: &&Curve| curve.congestion_control == *control;
        let curves: Vec<&Curve> = conclusion.curves.iter().filter(of_it).collect();
        page.blank();
        let name = control
            .as_deref()
            .map_or_else(String::new, |name| format!(", {name}"));
        page.heading(&format!("goodput in {}{name}: streams across", unit.name));
        for streams in streams_of(&curves).chunks(ACROSS) {
            table(page, &curves, streams, conclusion, unit);
        }
        drawn(page, &curves, greatest, unit);
    }
    page.line(&paint(
        FAINT,
        "* recommended   + highest goodput   - not measured",
    ));
    failed(page, cells, conclusion.forward);
}

fn points(conclusion: &Conclusion) -> impl Iterator<Item = u64> {
    let all = conclusion.curves.iter().flat_map(|curve| &curve.points);
    all.map(|point| point.goodput_bps)
}

fn streams_of(curves: &[&Curve]) -> Vec<u32> {
    let all = curves.iter().flat_map(|curve| &curve.points);
    let mut streams: Vec<u32> = all.map(|point| point.streams).collect();
    streams.sort_unstable();
    streams.dedup();
    streams
}

fn table(
    page: &mut Page,
    curves: &[&Curve],
    streams: &[u32],
    conclusion: &Conclusion,
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
            .map(|streams| cell(curve, *streams, conclusion, unit))
            .collect();
        page.line(&format!(
            "{:<WINDOW$}{cells}",
            words::window(curve.window_bytes)
        ));
    }
}

fn cell(curve: &Curve, streams: u32, conclusion: &Conclusion, unit: RateUnit) -> String {
    let point = curve.points.iter().find(|point| point.streams == streams);
    let text = point.map_or_else(|| ABSENT.to_owned(), |point| unit.short(point.goodput_bps));
    let is = |choice: &Option<Choice>| {
        choice
            .as_ref()
            .is_some_and(|c| fits(&c.setting, curve, streams))
    };
    let mark = match (is(&conclusion.recommended), is(&conclusion.best)) {
        (true, _) => '*',
        (_, true) => '+',
        _ => ' ',
    };
    format!("{text:>width$}{mark}", width = COLUMN - 1)
}

fn fits(setting: &Setting, curve: &Curve, streams: u32) -> bool {
    setting.window_bytes == curve.window_bytes
        && setting.congestion_control == curve.congestion_control
        && setting.streams == streams
}

/// Draws goodput over streams: one bar per number of streams, one line per window.
fn drawn(page: &mut Page, curves: &[&Curve], greatest: u64, unit: RateUnit) {
    if greatest == 0 {
        return;
    }
    page.blank();
    page.line(&paint(STRONG, "goodput against streams, from few to many"));
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
                "most {} {}, {streams}",
                unit.short(point.goodput_bps),
                unit.name
            )
        });
        page.line(&format!(
            "{:<WINDOW$}{bars}  {most}",
            words::window(curve.window_bytes)
        ));
    }
}

/// Writes the failed cells with their reasons.
fn failed(page: &mut Page, cells: &[Cell], forward: bool) {
    let all: Vec<(&Cell, &String)> = cells
        .iter()
        .filter(|cell| cell.forward == forward)
        .filter_map(|cell| Some((cell, cell.error.as_ref()?)))
        .collect();
    for (cell, error) in all.iter().take(FAILED_MOST) {
        page.hanging(
            "  failed: ",
            &format!("{}: {error}", words::short(&cell.setting)),
        );
    }
    if all.len() > FAILED_MOST {
        let more = all.len() - FAILED_MOST;
        page.line(&format!("  failed: {more} more; --json has every one"));
    }
}
