//! Goodput over time, drawn in one line, which shows ramps and gaps.
//!
//! The drawing uses the receiver's samples and is not a statistic: each column is the payload
//! between two moments, interpolated linearly, and the highest column is the maximum.

use crate::number_format::format_rate;
use longhaul_model::report::v1::observation::{StreamSample, ThroughputObservation};

/// A dot stands for a column without payload.
const BLOCKS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The minimum number of samples for a drawing.
const MIN_SAMPLES: usize = 8;

/// Returns the drawing, at most `columns` wide, and its legend.
pub fn draw_goodput(
    observation: &ThroughputObservation,
    columns: usize,
) -> Option<(String, String)> {
    let samples = || observation.streams.iter().map(|stream| stream.receiver.samples.len());
    let finest = samples().max().filter(|count| *count >= MIN_SAMPLES)?;
    // At least two samples per column, so that sampling jitter does not look like the path's.
    let steps = split_goodput(observation, columns.min(finest / 2));
    let until_us = steps.last()?.until_us;
    let rates: Vec<f64> = steps.iter().map(|step| step.bps).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let top = format_rate(most as u64);
    let legend = format!("0 to {:.1} s; █ = {top}", until_us as f64 / 1e6);
    Some((draw_blocks(&rates), legend))
}

/// The goodput of all streams together in one step.
#[derive(Debug, Clone, Copy)]
pub struct GoodputStep {
    pub until_us: u64,
    pub bps: f64,
}

/// Splits a run into `count` even steps; none without samples.
pub fn split_goodput(observation: &ThroughputObservation, count: usize) -> Vec<GoodputStep> {
    let samples = || observation.streams.iter().map(|stream| stream.receiver.samples.as_slice());
    let ends = samples().filter_map(|samples| Some(samples.last()?.at_us));
    let end_us = ends.max().unwrap_or(0) as f64;
    let step_us = end_us / count.max(1) as f64;
    let bytes = |at_us: f64| -> f64 { samples().map(|it| interpolate_bytes(it, at_us)).sum() };
    let steps = (1..=count).map(|number| {
        let (from_us, until_us) = ((number - 1) as f64 * step_us, number as f64 * step_us);
        let grown = (bytes(until_us) - bytes(from_us)).max(0.0);
        GoodputStep { until_us: until_us as u64, bps: grown * 8e6 / step_us }
    });
    if end_us > 0.0 { steps.collect() } else { Vec::new() }
}

/// Draws values relative to their maximum; any value above zero is visible.
fn draw_blocks(values: &[f64]) -> String {
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let block = |value: &f64| {
        let eighths = (value / most * 8.0).round().clamp(0.0, 8.0) as usize;
        BLOCKS[if *value > 0.0 { eighths.max(1) } else { 0 }]
    };
    values.iter().map(block).collect()
}

/// Returns the payload of one stream at a time, interpolated between samples.
fn interpolate_bytes(samples: &[StreamSample], at_us: f64) -> f64 {
    let after = samples.partition_point(|sample| (sample.at_us as f64) < at_us);
    let point = |sample: &StreamSample| (sample.at_us as f64, sample.bytes as f64);
    let (from, to) = match (after.checked_sub(1), samples.get(after)) {
        (None, Some(first)) => ((0.0, 0.0), point(first)),
        (Some(before), Some(next)) => (point(&samples[before]), point(next)),
        (Some(last), None) => return samples[last].bytes as f64,
        (None, None) => return 0.0,
    };
    let span = to.0 - from.0;
    if span <= 0.0 {
        return to.1;
    }
    from.1 + (to.1 - from.1) * (at_us - from.0) / span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_between_samples_lies_on_a_line() {
        let sample = |at_us, bytes| StreamSample { at_us, bytes, ..StreamSample::default() };
        let samples = [sample(100, 0), sample(200, 50)];
        for (at, bytes) in [(0.0, 0.0), (100.0, 0.0), (150.0, 25.0), (200.0, 50.0), (900.0, 50.0)] {
            assert!((interpolate_bytes(&samples, at) - bytes).abs() < 1e-9, "{at}");
        }
        assert!(interpolate_bytes(&[], 5.0).abs() < 1e-9);
    }

    #[test]
    fn what_moved_at_all_is_seen() {
        assert_eq!(draw_blocks(&[0.0, 0.001, 0.5, 1.0]), "·▁▄█");
    }
}
