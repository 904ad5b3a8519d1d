//! Loads and their effects on one time axis: goodput above round trips and lost probes, with the
//! time of each load shaded.

use super::chart_panel::{AxisScale, ChartPanel};
use super::figure_frame::{self, FOOT, HEAD, MARGIN};
use super::figure_sheet::{FigureSheet, GREY, InkColour, TextAnchor};
use crate::load_text::{self, format_nanos};
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

const SHADE: InkColour = InkColour(0xf1, 0xf1, 0xf5);
const LOAD: InkColour = InkColour(0x0b, 0x62, 0x9b);
const OTHER: InkColour = InkColour(0xd5, 0x5e, 0x00);
const PROBE: InkColour = InkColour(0x3b, 0x6e, 0x3b);
const LOST: InkColour = InkColour(0xb3, 0x1b, 0x1b);

/// The step of the goodput line.
const RATE_STEP_US: u64 = 200_000;

pub fn draw_load_chart(load: &LoadReport) -> FigureSheet {
    let height = HEAD + NAMES + 2.0 * PANEL + GAP + TIME_LABELS + FOOT;
    let title =
        format!("Effect of load: {}", figure_frame::describe_ends(&load.run, load.plan.forward));
    let observation = &load.observation;
    let lost = observation.probes.iter().any(|probe| probe.echo.rtt_ns.is_none());
    let probes = if lost { "red: lost" } else { "none was lost" };
    let under = format!("goodput at the receiver, and RTT of probes ({probes}); loads are shaded");
    let mut sheet = figure_frame::begin_figure(WIDTH, height, &title, &under, &load.run);
    let phases = observation.phases.iter().map(|p| p.until_us);
    let probes = observation.probes.last().map(|p| p.echo.at_us);
    let until_us = phases.chain(probes).max().unwrap_or(0).max(1);
    let panel = |number: u32, up: AxisScale| {
        let top = HEAD + NAMES + f64::from(number) * (PANEL + GAP);
        ChartPanel {
            from: (MARGIN + LEFT, top),
            to: (WIDTH - MARGIN, top + PANEL),
            across: AxisScale::seconds(until_us),
            up,
        }
    };
    let lines = |pick: fn(&LoadPhase) -> Option<&LoadFlow>| -> Vec<Vec<(u64, f64)>> {
        observation.phases.iter().filter_map(pick).map(rate_steps).collect()
    };
    let (own, other) = (lines(|phase| phase.load.as_ref()), lines(|it| it.competitor.as_ref()));
    let most = own.iter().chain(&other).flatten().map(|(_, bps)| *bps).fold(0.0, f64::max);
    let goodput = panel(0, AxisScale::rates("goodput", most));
    let most_ns = observation.probes.iter().filter_map(|probe| probe.echo.rtt_ns).max();
    let rtt = panel(1, AxisScale::from_zero("RTT, ms", most_ns.unwrap_or(0) as f64, 1e6));
    for panel in [&goodput, &rtt] {
        for phase in observation.phases.iter().filter(|p| p.step.is_some()) {
            panel.shade(&mut sheet, phase.from_us as f64, phase.until_us as f64, SHADE);
        }
        panel.draw_values(&mut sheet);
    }
    draw_load_names(&mut sheet, load, &goodput);
    draw_goodput(&mut sheet, &goodput, &own, LOAD);
    draw_goodput(&mut sheet, &goodput, &other, OTHER);
    draw_legend(&mut sheet, goodput.to.0, !other.is_empty());
    draw_round_trips(&mut sheet, &rtt, load);
    rtt.draw_labels_below(&mut sheet);
    sheet
}

/// Draws the name of each load if there is room for it, otherwise its number.
fn draw_load_names(sheet: &mut FigureSheet, load: &LoadReport, panel: &ChartPanel) {
    for phase in &load.observation.phases {
        let Some((number, step)) =
            phase.step.and_then(|n| Some((n, load.plan.steps.get(n as usize)?)))
        else {
            continue;
        };
        let [from, to] = [phase.from_us, phase.until_us].map(|us| panel.at(us as f64, 0.0).0);
        let name = load_text::describe_step(step);
        let fits = name.chars().count() as f64 * LETTER < to - from + 20.0;
        let text = if fits { name } else { (number + 1).to_string() };
        let at = (f64::midpoint(from, to), HEAD + NAMES - 12.0);
        sheet.text(at, text, 12.0, GREY, TextAnchor::Middle);
    }
}

/// Draws the rates of loads, or of their competitors.
fn draw_goodput(
    sheet: &mut FigureSheet,
    panel: &ChartPanel,
    lines: &[Vec<(u64, f64)>],
    ink: InkColour,
) {
    for line in lines.iter().filter(|line| line.len() > 1) {
        let points = line.iter().map(|(us, bps)| panel.at(*us as f64, *bps));
        sheet.line(&points.collect::<Vec<_>>(), ink, 2.0);
    }
}

fn draw_legend(sheet: &mut FigureSheet, right: f64, competes: bool) {
    let mut x = right - 8.0;
    let y = HEAD - 4.0;
    for (name, ink, there) in [("competitor", OTHER, competes), ("load", LOAD, true)] {
        if there {
            sheet.label((x, y), name, TextAnchor::Right);
            x -= name.len() as f64 * 7.0 + 8.0;
            sheet.line(&[(x - 22.0, y), (x, y)], ink, 3.0);
            x -= 42.0;
        }
    }
}

/// Returns rates in steps of at least [`RATE_STEP_US`], and none at both ends.
fn rate_steps(flow: &LoadFlow) -> Vec<(u64, f64)> {
    let (Some(mut from), Some(last)) = (flow.series.first(), flow.series.last()) else {
        return Vec::new();
    };
    let mut steps = vec![(from.at_us, 0.0)];
    for point in &flow.series {
        let time_us = point.at_us.saturating_sub(from.at_us);
        if time_us >= RATE_STEP_US {
            let bytes = point.bytes.saturating_sub(from.bytes);
            steps.push((from.at_us + time_us / 2, bytes as f64 * 8e6 / time_us as f64));
            from = point;
        }
    }
    steps.push((last.at_us, 0.0));
    steps
}

fn draw_round_trips(sheet: &mut FigureSheet, panel: &ChartPanel, load: &LoadReport) {
    for LoadProbe { echo, .. } in &load.observation.probes {
        let at_us = echo.at_us as f64;
        if let Some(ns) = echo.rtt_ns {
            sheet.dot(panel.at(at_us, ns as f64), 1.2, PROBE, true);
        } else {
            let ((x, _), top) = (panel.at(at_us, 0.0), panel.from.1);
            sheet.line(&[(x, top), (x, top + 7.0)], LOST, 1.0);
        }
    }
    if let Some(idle) = &load.analysis.idle {
        let name = format!("idle {}", format_nanos(idle.rtt_median_ns));
        panel.draw_level(sheet, idle.rtt_median_ns as f64, &name);
    }
}
