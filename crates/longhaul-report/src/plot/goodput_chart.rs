//! Goodput of one run over time, of all streams together, with its steady level.

use super::figure_colours;
use super::figure_frame::{self, AxisUnit, FOOT, HEAD, MARGIN, round_ticks};
use super::figure_sheet::{BLACK, FAINT, FigureSheet, GREY, TextAnchor};
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
    let mut sheet = FigureSheet::new(WIDTH, HEIGHT);
    let ends = figure_frame::describe_ends(&run.run, run.observation.forward);
    figure_frame::draw_figure_frame(&mut sheet, "Goodput over the run", &ends, &run.run);
    let points = goodput_steps(run);
    let Some(&(until_us, _)) = points.last() else {
        let nothing = (MARGIN, HEAD + 20.0);
        sheet.text(nothing, "No samples were taken.", 16.0, BLACK, TextAnchor::Left);
        return sheet;
    };
    let most = points.iter().map(|(_, bps)| *bps).fold(0.0, f64::max);
    let ticks = round_ticks(most);
    let highest = ticks.last().copied().unwrap_or(1.0);
    let (left, right) = (MARGIN + LEFT, WIDTH - MARGIN);
    let (top, bottom) = (HEAD, HEIGHT - FOOT - BOTTOM);
    let x = |us: f64| left + us / until_us as f64 * (right - left);
    let y = |bps: f64| bottom - bps / highest * (bottom - top);
    let unit = AxisUnit::for_rate(highest);
    for tick in &ticks {
        sheet.line(&[(left, y(*tick)), (right, y(*tick))], FAINT, 1.0);
        let at = (left - 8.0, y(*tick));
        sheet.text(at, unit.format_tick(*tick), 13.0, BLACK, TextAnchor::Right);
    }
    for second in figure_frame::round_ticks(until_us as f64 / 1e6) {
        let at = x(second * 1e6);
        if at <= right {
            sheet.line(&[(at, bottom), (at, bottom + 5.0)], GREY, 1.0);
            let text = (at, bottom + 16.0);
            sheet.text(text, format!("{second}"), 13.0, BLACK, TextAnchor::Middle);
        }
    }
    sheet.line(&[(left, bottom), (right, bottom)], GREY, 1.0);
    let line: Vec<(f64, f64)> = points.iter().map(|(us, bps)| (x(*us as f64), y(*bps))).collect();
    sheet.line(&line, figure_colours::viridis_colour(0.4), 2.0);
    if let Some(bps) = run.analysis.goodput_bps {
        let level = y((bps as f64).min(highest));
        sheet.dashes((left, level), (right, level), GREY);
    }
    let middle = f64::midpoint(left, right);
    sheet.text((middle, bottom + 36.0), "seconds", 13.0, GREY, TextAnchor::Middle);
    let aside = (MARGIN + 8.0, f64::midpoint(top, bottom));
    let title = format!("goodput, {}", unit.name);
    sheet.text(aside, title, 13.0, GREY, TextAnchor::Rotated);
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
        bytes.insert(at_us, samples().map(|s| interpolate_bytes(s, at_us as f64)).sum());
    }
    let moments: Vec<(u64, f64)> = bytes.into_iter().collect();
    let rate = |pair: &[(u64, f64)]| {
        let span_us = (pair[1].0 - pair[0].0) as f64;
        (pair[1].0, (pair[1].1 - pair[0].1).max(0.0) * 8e6 / span_us)
    };
    moments.windows(2).map(rate).collect()
}

/// Interpolates the payload of one stream between its neighbouring samples.
fn interpolate_bytes(samples: &[StreamSample], at_us: f64) -> f64 {
    let after = samples.partition_point(|sample| (sample.at_us as f64) < at_us);
    let point = |sample: &StreamSample| (sample.at_us as f64, sample.bytes as f64);
    let Some(next) = samples.get(after).map(point) else {
        return samples.last().map_or(0.0, |last| last.bytes as f64);
    };
    let before = after.checked_sub(1).map_or((0.0, 0.0), |i| point(&samples[i]));
    if next.0 <= before.0 {
        return next.1;
    }
    before.1 + (next.1 - before.1) * (at_us - before.0) / (next.0 - before.0)
}
