//! Goodput of one run over time, of all streams together, with its steady level.

use super::chart_panel::{AxisScale, ChartPanel};
use super::figure_colours;
use super::figure_frame::{self, FOOT, HEAD, MARGIN};
use super::figure_sheet::{FigureSheet, GREY};
use crate::goodput_picture::split_goodput;
use longhaul_model::report::v1::ThroughputReport;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
/// The maximum number of steps; finer ones show the sampling and not the path.
const MAX_STEPS: usize = 200;

pub fn draw_goodput_chart(run: &ThroughputReport) -> FigureSheet {
    let ends = figure_frame::describe_ends(&run.run, run.observation.forward);
    let title = "Goodput over the run";
    let mut sheet = figure_frame::begin_figure(WIDTH, HEIGHT, title, &ends, &run.run);
    let streams = run.observation.streams.iter();
    let finest = streams.map(|stream| stream.receiver.samples.len()).max().unwrap_or(0);
    let steps = split_goodput(&run.observation, finest.clamp(1, MAX_STEPS));
    let Some(last) = steps.last() else {
        figure_frame::draw_note(&mut sheet, "No samples were taken.");
        return sheet;
    };
    let most = steps.iter().map(|step| step.bps).fold(0.0, f64::max);
    let panel = ChartPanel {
        from: (MARGIN + LEFT, HEAD),
        to: (WIDTH - MARGIN, HEIGHT - FOOT - BOTTOM),
        across: AxisScale::seconds(last.until_us),
        up: AxisScale::rates("goodput", most),
    };
    panel.draw(&mut sheet);
    let line = steps.iter().map(|step| panel.at(step.until_us as f64, step.bps));
    let ink = figure_colours::viridis_colour(0.4);
    sheet.line(&line.collect::<Vec<_>>(), ink, 2.0);
    if let Some(bps) = run.analysis.goodput_bps {
        let (_, y) = panel.at(0.0, bps as f64);
        sheet.dashes((panel.from.0, y), (panel.to.0, y), GREY);
    }
    sheet
}
