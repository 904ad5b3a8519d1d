//! Loads and their effects on one time axis: goodput, round trips and losses, in panels below each
//! other, with the time of each load shaded.
//!
//! [`chart_panel`] has the axes.

mod chart_panel;

use super::figure_frame::{self, FOOT, HEAD, MARGIN};
use super::figure_sheet::{BLACK, FigureSheet, GREY, InkColour, TextAnchor};
use crate::load_text::load_step_text;
use chart_panel::{ChartPanel, TimeAxis, ValueScale};
use longhaul_model::report::v1::LoadReport;
use longhaul_model::report::v1::load::{LoadFlow, LoadPhase, LoadProbe};

const WIDTH: f64 = 1040.0;
const PANEL: f64 = 210.0;
const GAP: f64 = 26.0;
const LEFT: f64 = 84.0;
/// The height for the names of loads above the first panel.
const NAMES: f64 = 30.0;
const TIME_LABELS: f64 = 44.0;
/// The average width of a letter in the names of loads.
const LETTER: f64 = 6.6;

const LOAD: InkColour = InkColour(0x0b, 0x62, 0x9b);
const OTHER: InkColour = InkColour(0xd5, 0x5e, 0x00);
const PROBE: InkColour = InkColour(0x3b, 0x6e, 0x3b);
const LOST: InkColour = InkColour(0xb3, 0x1b, 0x1b);

/// The minimum step of the goodput line.
const RATE_STEP_US: u64 = 200_000;
/// The number of columns in the loss panel.
const BINS: usize = 120;
/// The maximum ratio of round trips on a linear axis; beyond it, the axis is logarithmic.
const MAX_LINEAR_RATIO: f64 = 12.0;

pub fn draw_load_chart(load: &LoadReport) -> FigureSheet {
    let height = HEAD + NAMES + 3.0 * PANEL + 2.0 * GAP + TIME_LABELS + FOOT;
    let mut sheet = FigureSheet::new(WIDTH, height);
    let title =
        format!("Effect of load: {}", figure_frame::describe_ends(&load.run, load.plan.forward));
    let under = "goodput at the receiver, RTT of probes, and lost probes; loads are shaded";
    figure_frame::draw_figure_frame(&mut sheet, &title, under, &load.run);
    let observation = &load.observation;
    let phases = observation.phases.iter().map(|p| p.until_us);
    let probes = observation.probes.last().map(|p| p.echo.at_us);
    let time = TimeAxis {
        from: MARGIN + LEFT,
        to: WIDTH - MARGIN,
        until_us: phases.chain(probes).max().unwrap_or(0).max(1),
    };
    let top = |number: u32| HEAD + NAMES + f64::from(number) * (PANEL + GAP);
    for number in 0..3 {
        for phase in observation.phases.iter().filter(|p| p.step.is_some()) {
            time.shade(&mut sheet, (top(number), PANEL), phase.from_us, phase.until_us);
        }
    }
    draw_load_names(&mut sheet, load, time);
    draw_goodput_panel(&mut sheet, load, time, top(0));
    draw_rtt_panel(&mut sheet, load, time, top(1));
    draw_loss_panel(&mut sheet, load, time, top(2));
    time.draw_labels(&mut sheet, top(2) + PANEL);
    sheet
}

/// Draws the name of each load if there is room for it, otherwise its number.
fn draw_load_names(sheet: &mut FigureSheet, load: &LoadReport, time: TimeAxis) {
    for phase in &load.observation.phases {
        let Some((number, step)) =
            phase.step.and_then(|n| Some((n, load.plan.steps.get(n as usize)?)))
        else {
            continue;
        };
        let (from, to) = (time.at(phase.from_us), time.at(phase.until_us));
        let name = load_step_text::describe_step(step);
        let fits = name.chars().count() as f64 * LETTER < to - from + 20.0;
        let text = if fits { name } else { (number + 1).to_string() };
        let at = (f64::midpoint(from, to), HEAD + NAMES - 12.0);
        sheet.text(at, text, 12.0, GREY, TextAnchor::Middle);
    }
}

fn draw_goodput_panel(sheet: &mut FigureSheet, load: &LoadReport, time: TimeAxis, top: f64) {
    let flows = |pick: fn(&LoadPhase) -> Option<&LoadFlow>| {
        let flows = load.observation.phases.iter().filter_map(pick);
        flows.map(rate_steps).collect::<Vec<_>>()
    };
    let own = flows(|phase| phase.load.as_ref());
    let other = flows(|phase| phase.competitor.as_ref());
    let lines = || own.iter().chain(&other).flatten();
    let most = lines().map(|(_, bps)| *bps).fold(0.0, f64::max);
    let panel = ChartPanel::new((time, top, PANEL), ValueScale::rates(most));
    panel.draw(sheet);
    for (lines, ink) in [(&own, LOAD), (&other, OTHER)] {
        for line in lines {
            let points: Vec<(f64, f64)> = line.iter().map(|(t, v)| panel.at(*t, *v)).collect();
            if points.len() > 1 {
                sheet.line(&points, ink, 2.0);
            }
        }
    }
    let mut x = time.to - 8.0;
    let y = HEAD - 4.0;
    for (name, ink, there) in [("competitor", OTHER, !other.is_empty()), ("load", LOAD, true)] {
        if there {
            sheet.text((x, y), name, 13.0, BLACK, TextAnchor::Right);
            x -= name.len() as f64 * 7.0 + 8.0;
            sheet.line(&[(x - 22.0, y), (x, y)], ink, 3.0);
            x -= 42.0;
        }
    }
}

/// Returns rates in even steps, with a point in the middle of each.
fn rate_steps(flow: &LoadFlow) -> Vec<(u64, f64)> {
    let mut line = Vec::new();
    let Some(mut low) = flow.series.first() else {
        return line;
    };
    line.push((low.at_us, 0.0));
    for point in &flow.series {
        let time = point.at_us.saturating_sub(low.at_us);
        if time >= RATE_STEP_US {
            let bits = point.bytes.saturating_sub(low.bytes) as f64 * 8.0;
            line.push((low.at_us + time / 2, bits * 1e6 / time as f64));
            low = point;
        }
    }
    line.extend(flow.series.last().map(|last| (last.at_us, 0.0)));
    line
}

fn draw_rtt_panel(sheet: &mut FigureSheet, load: &LoadReport, time: TimeAxis, top: f64) {
    let answered = || {
        let probes = load.observation.probes.iter();
        probes.filter_map(|p| Some((p.echo.at_us, p.echo.rtt_ns? as f64)))
    };
    let (least, most) = answered()
        .fold((f64::INFINITY, 0.0f64), |(low, high), (_, ns)| (low.min(ns), high.max(ns)));
    let scale = if least.is_finite() && most > MAX_LINEAR_RATIO * least.max(1.0) {
        ValueScale::times_log(least, most)
    } else {
        ValueScale::times(most)
    };
    let panel = ChartPanel::new((time, top, PANEL), scale);
    panel.draw(sheet);
    for (at_us, ns) in answered() {
        sheet.dot(panel.at(at_us, ns), 1.2, PROBE, true);
    }
    for probe in lost_probes(&load.observation.probes) {
        let x = time.at(probe.echo.at_us);
        sheet.line(&[(x, top), (x, top + 7.0)], LOST, 1.0);
    }
    if let Some(idle) = &load.analysis.idle {
        panel.draw_level(sheet, idle.rtt_median_ns as f64, "idle");
    }
}

fn lost_probes(probes: &[LoadProbe]) -> impl Iterator<Item = &LoadProbe> {
    probes.iter().filter(|p| p.echo.rtt_ns.is_none())
}

fn draw_loss_panel(sheet: &mut FigureSheet, load: &LoadReport, time: TimeAxis, top: f64) {
    let mut bins = vec![(0u32, 0u32); BINS];
    let bin = |at_us: u64| {
        let place = u128::from(at_us) * BINS as u128 / u128::from(time.until_us);
        (place as usize).min(BINS - 1)
    };
    for probe in &load.observation.probes {
        let (sent, lost) = &mut bins[bin(probe.echo.at_us)];
        *sent += 1;
        *lost += u32::from(probe.echo.rtt_ns.is_none());
    }
    let share = |(sent, lost): &(u32, u32)| f64::from(*lost) / f64::from((*sent).max(1));
    let most = bins.iter().map(share).fold(0.0, f64::max);
    let panel = ChartPanel::new((time, top, PANEL), ValueScale::shares(most));
    panel.draw(sheet);
    let edge = |number: usize| {
        let place = u128::from(time.until_us) * number as u128 / BINS as u128;
        place as u64
    };
    for (number, counts) in bins.iter().enumerate().filter(|(_, c)| c.1 > 0) {
        let (left, high) = panel.at(edge(number), share(counts));
        let (right, low) = panel.at(edge(number + 1), 0.0);
        sheet.fill((left + 0.5, high), (right - 0.5, low), LOST);
    }
    if most <= 0.0 {
        let middle = f64::midpoint(time.from, time.to);
        let at = (middle, top + PANEL / 2.0);
        sheet.text(at, "no probe lost", 14.0, GREY, TextAnchor::Middle);
    }
}
