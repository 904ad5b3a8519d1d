//! Goodput over time, drawn in one line, which shows ramps and gaps.
//!
//! The drawing uses the receiver's samples and is not a statistic: each column is the payload
//! between two moments, interpolated linearly, and the highest column is the maximum.

use crate::number_format::format_rate;
use longhaul_model::report::v1::observation::{StreamSample, ThroughputObservation};
use longhaul_model::units::Rate;
use std::time::Duration;

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The minimum number of samples for a drawing.
const MIN_SAMPLES: usize = 8;

/// Returns the drawing, at most `columns` wide, and its legend.
pub fn draw_goodput(
    observation: &ThroughputObservation,
    columns: usize,
) -> Option<(String, String)> {
    let series: Vec<&[StreamSample]> =
        observation.streams.iter().map(|stream| stream.receiver.samples.as_slice()).collect();
    let finest = series.iter().map(|samples| samples.len()).max()?;
    let until_us = series.iter().filter_map(|s| s.last()).map(|s| s.at_us).max()?;
    if finest < MIN_SAMPLES || until_us == 0 {
        return None;
    }
    // At least two samples per column, so that sampling jitter does not look like the path's.
    let columns = columns.min(finest / 2);
    let at = |column: usize| until_us as f64 * column as f64 / columns as f64;
    let bytes: Vec<f64> =
        (0..=columns).map(|column| series.iter().map(|s| bytes_at(s, at(column))).sum()).collect();
    let grown: Vec<f64> = bytes.windows(2).map(|w| (w[1] - w[0]).max(0.0)).collect();
    let most = grown.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let picture = draw_blocks(&grown);
    let column_time = Duration::from_micros(until_us / columns as u64);
    let top = Rate::over(most as u64, column_time)?;
    let legend = format!("0 to {:.1} s; █ = {}", until_us as f64 / 1e6, format_rate(top.as_bps()));
    Some((picture, legend))
}

/// Draws values relative to their maximum; any value above zero is visible.
pub fn draw_blocks(values: &[f64]) -> String {
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    draw_shares(&values.iter().map(|value| value / most).collect::<Vec<_>>())
}

/// Draws shares of a full block; any share above zero is visible.
pub fn draw_shares(shares: &[f64]) -> String {
    let block = |share: &f64| {
        let eighths = (share * 8.0).round().clamp(0.0, 8.0) as usize;
        BLOCKS[if *share > 0.0 { eighths.max(1) } else { 0 }]
    };
    shares.iter().map(block).collect()
}

/// Returns the payload of one stream at a time, interpolated between samples.
pub fn bytes_at(samples: &[StreamSample], at_us: f64) -> f64 {
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
            assert!((bytes_at(&samples, at) - bytes).abs() < 1e-9, "{at}");
        }
        assert!(bytes_at(&[], 5.0).abs() < 1e-9);
    }

    #[test]
    fn what_moved_at_all_is_seen() {
        assert_eq!(draw_blocks(&[0.0, 0.001, 0.5, 1.0]), " ▁▄█");
    }
}
