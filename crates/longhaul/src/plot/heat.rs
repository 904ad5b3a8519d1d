//! Goodput by windows (rows) and streams (columns): a colour and a number for each cell.

use super::colours;
use super::frame::{self, FOOT, HEAD, MARGIN, Unit, window};
use super::sheet::{Anchor, BLACK, FAINT, GREY, Sheet};
use longhaul_model::report::v1::Scan;
use longhaul_model::report::v1::scan::{Conclusion, Curve, Setting};
use std::collections::BTreeSet;

const CELL: (f64, f64) = (72.0, 40.0);
/// The size of smaller cells, so that a wide grid fits a page.
const SMALL_CELL: (f64, f64) = (52.0, 34.0);
const MANY_COLUMNS: usize = 14;
/// The width of the window labels and their axis title.
const LEFT: f64 = 110.0;
const LEGEND: f64 = 130.0;
const PANEL_HEAD: f64 = 34.0;
const PANEL_FOOT: f64 = 58.0;
/// The maximum number of rows or columns; the rest of a larger grid is left out.
const MOST_LINES: usize = 48;
const MOST_PANELS: usize = 6;

/// The panel of one direction and congestion control.
struct Panel<'a> {
    found: &'a Conclusion,
    control: Option<&'a str>,
    curves: Vec<&'a Curve>,
}

struct Grid {
    windows: Vec<Option<u64>>,
    streams: Vec<u32>,
    cell: (f64, f64),
    unit: Unit,
    most_bps: f64,
}

pub fn sheet(scan: &Scan) -> Sheet {
    let panels = panels(scan);
    let grid = grid(scan, &panels);
    let across = grid.cell.0 * grid.streams.len() as f64;
    let down = grid.cell.1 * grid.windows.len() as f64;
    let panel_height = PANEL_HEAD + down + PANEL_FOOT;
    let width = (LEFT + across + LEGEND + 2.0 * MARGIN).max(640.0);
    let height = HEAD + panel_height * panels.len().max(1) as f64 + FOOT;
    let mut sheet = Sheet::new(width, height);
    let under =
        "best: the highest goodput; use: the smallest setting as good (3 %); empty: not measured";
    frame::frame(
        &mut sheet,
        "Goodput by window and streams",
        under,
        &scan.run,
    );
    if panels.is_empty() {
        sheet.text(
            (MARGIN, HEAD + 20.0),
            "No probe gave a result.",
            16.0,
            BLACK,
            Anchor::Left,
        );
    }
    for (index, panel) in panels.iter().enumerate() {
        let top = HEAD + panel_height * index as f64;
        let named = panel
            .control
            .map_or(String::new(), |name| format!(", {}", frame::short(name)));
        let title = format!("{}{named}", frame::ends(&scan.run, panel.found.forward));
        sheet.text((MARGIN, top + 14.0), title, 16.0, BLACK, Anchor::Left);
        let corner = (MARGIN + LEFT, top + PANEL_HEAD);
        axes(&mut sheet, &grid, corner);
        cells(&mut sheet, &grid, panel, corner);
        legend(&mut sheet, &grid, (corner.0 + across + 28.0, corner.1));
    }
    sheet
}

fn panels(scan: &Scan) -> Vec<Panel<'_>> {
    let mut panels = Vec::new();
    for found in &scan.analysis.directions {
        let controls: BTreeSet<Option<&str>> = found
            .curves
            .iter()
            .map(|c| c.congestion_control.as_deref())
            .collect();
        for control in controls {
            let of_it = |c: &&Curve| c.congestion_control.as_deref() == control;
            let curves = found.curves.iter().filter(of_it).collect();
            panels.push(Panel {
                found,
                control,
                curves,
            });
        }
    }
    panels.truncate(MOST_PANELS);
    panels
}

/// Builds the grid. All panels share rows, columns and colours, so that they are comparable.
fn grid(scan: &Scan, panels: &[Panel]) -> Grid {
    let curves = || panels.iter().flat_map(|p| &p.curves);
    let points = || curves().flat_map(|c| &c.points);
    let mut windows: BTreeSet<Option<u64>> = scan.plan.windows_bytes.iter().copied().collect();
    windows.extend(curves().map(|c| c.window_bytes));
    let mut streams: BTreeSet<u32> = scan.plan.streams.iter().copied().collect();
    streams.extend(points().map(|p| p.streams));
    let most_bps = points().map(|p| p.goodput_bps as f64).fold(0.0, f64::max);
    Grid {
        // The widest window is at the top.
        windows: windows.into_iter().take(MOST_LINES).rev().collect(),
        cell: if streams.len() > MANY_COLUMNS {
            SMALL_CELL
        } else {
            CELL
        },
        streams: streams.into_iter().take(MOST_LINES).collect(),
        unit: Unit::of(most_bps),
        most_bps,
    }
}

fn axes(sheet: &mut Sheet, grid: &Grid, (left, top): (f64, f64)) {
    let (wide, high) = grid.cell;
    let bottom = top + high * grid.windows.len() as f64;
    for (row, bytes) in grid.windows.iter().enumerate() {
        let y = top + high * (row as f64 + 0.5);
        sheet.text((left - 8.0, y), window(*bytes), 14.0, BLACK, Anchor::Right);
    }
    for (column, streams) in grid.streams.iter().enumerate() {
        let x = left + wide * (column as f64 + 0.5);
        sheet.text(
            (x, bottom + 14.0),
            streams.to_string(),
            14.0,
            BLACK,
            Anchor::Middle,
        );
    }
    let middle = left + wide * grid.streams.len() as f64 / 2.0;
    sheet.text(
        (middle, bottom + 36.0),
        "streams",
        14.0,
        GREY,
        Anchor::Middle,
    );
    sheet.text(
        (MARGIN + 8.0, f64::midpoint(top, bottom)),
        "window",
        14.0,
        GREY,
        Anchor::Upward,
    );
}

fn cells(sheet: &mut Sheet, grid: &Grid, panel: &Panel, (left, top): (f64, f64)) {
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
            let ground = colours::scale(bps / grid.most_bps.max(1.0));
            sheet.fill(from, to, ground);
            let word = word(panel, *bytes, *streams);
            let shift = if word.is_some() { 6.0 } else { 0.0 };
            let ink = colours::on(ground);
            sheet.text(
                (middle.0, middle.1 - shift),
                grid.unit.write(bps),
                14.0,
                ink,
                Anchor::Middle,
            );
            if let Some(word) = word {
                sheet.text((middle.0, middle.1 + 10.0), word, 12.0, ink, Anchor::Middle);
                marked.push((from, to));
            }
        }
    }
    // Marked last, so that no neighbour covers the marks.
    for (from, to) in marked {
        sheet.frame(from, to, BLACK, 3.0);
    }
}

fn word(panel: &Panel, window_bytes: Option<u64>, streams: u32) -> Option<&'static str> {
    let here = |s: &Setting| {
        (s.window_bytes, s.streams, s.congestion_control.as_deref())
            == (window_bytes, streams, panel.control)
    };
    let best = panel.found.best.as_ref().is_some_and(|c| here(&c.setting));
    let recommended = panel
        .found
        .recommended
        .as_ref()
        .is_some_and(|c| here(&c.setting));
    match (best, recommended) {
        (true, true) => Some("best, use"),
        (true, false) => Some("best"),
        (false, true) => Some("use"),
        (false, false) => None,
    }
}

fn legend(sheet: &mut Sheet, grid: &Grid, (left, top): (f64, f64)) {
    const STEPS: u32 = 60;
    let high = (grid.cell.1 * grid.windows.len() as f64).clamp(90.0, 220.0);
    for step in 0..STEPS {
        let part = |s: u32| top + high * (1.0 - f64::from(s) / f64::from(STEPS));
        let ink = colours::scale((f64::from(step) + 0.5) / f64::from(STEPS));
        sheet.fill((left, part(step + 1)), (left + 16.0, part(step)), ink);
    }
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let y = top + high * (1.0 - share);
        let text = grid.unit.write(grid.most_bps * share);
        sheet.text((left + 22.0, y), text, 13.0, BLACK, Anchor::Left);
    }
    sheet.text((left, top - 16.0), grid.unit.name, 13.0, GREY, Anchor::Left);
}
