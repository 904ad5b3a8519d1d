//! Goodput of one run over time, of all streams together, with its steady level.

use super::chart_panel::{AxisScale, ChartPanel};
use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN};
use super::figure_sheet::{FigureSheet, GREY};
use crate::goodput_picture::bytes_at;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::observation::StreamSample;
use std::collections::BTreeMap;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
/// The maximum number of steps; finer ones show the sampling and not the path.
const MAX_STEPS: u64 = 200;

pub fn draw_goodput_chart(run: &ThroughputReport) -> FigureSheet {
    let ends = figure_frame::describe_ends(&run.run, run.observation.forward);
    let title = "Goodput over the run";
    let mut sheet = figure_frame::begin_figure(WIDTH, HEIGHT, title, &ends, &run.run);
    let points = goodput_steps(run);
    let Some(&(until_us, _)) = points.last() else {
        figure_frame::draw_note(&mut sheet, "No samples were taken.");
        return sheet;
    };
    let most = points.iter().map(|(_, bps)| *bps).fold(0.0, f64::max);
    let panel = ChartPanel {
        from: (MARGIN + LEFT, HEAD),
        to: (WIDTH - MARGIN, HEIGHT - FOOT - BOTTOM),
        across: AxisScale::seconds(until_us),
        up: AxisScale::rates("goodput", most),
    };
    panel.draw(&mut sheet);
    let line = points.iter().map(|(us, bps)| panel.at(*us as f64, *bps));
    let ink = figure_colours::viridis_colour(0.4);
    sheet.line(&line.collect::<Vec<_>>(), ink, 2.0);
    if let Some(bps) = run.analysis.goodput_bps {
        let (_, y) = panel.at(0.0, bps as f64);
        sheet.dashes((panel.from.0, y), (panel.to.0, y), GREY);
    }
    sheet
}

/// Returns the end of each step in µs and the receiver's rate in bit/s, of all streams together.
fn goodput_steps(run: &ThroughputReport) -> Vec<(u64, f64)> {
    let streams = &run.observation.streams;
    let samples = || streams.iter().map(|stream| stream.receiver.samples.as_slice());
    let Some(until_us) = samples().filter_map(|s| s.last()).map(|s| s.at_us).max() else {
        return Vec::new();
    };
    let finest = samples().map(<[StreamSample]>::len).max().unwrap_or(0) as u64;
    let steps = finest.clamp(1, MAX_STEPS);
    let mut bytes: BTreeMap<u64, f64> = BTreeMap::new();
    for step in 0..=steps {
        let at_us = until_us * step / steps;
        bytes.insert(at_us, samples().map(|s| bytes_at(s, at_us as f64)).sum());
    }
    let moments: Vec<(u64, f64)> = bytes.into_iter().collect();
    let rate = |pair: &[(u64, f64)]| {
        let span_us = (pair[1].0 - pair[0].0) as f64;
        (pair[1].0, (pair[1].1 - pair[0].1).max(0.0) * 8e6 / span_us)
    };
    moments.windows(2).map(rate).collect()
}
