//! Detects a shaper: a token bucket that passes the start at its peak rate and limits the rest.
//!
//! A lasting step down in the receiver's arrivals: the breakpoint at which two constant rates fit
//! best, accepted if the step is large compared with the scatter of both parts and both parts are
//! level; the caller checks for a queue after it. Then: sustained = level after; burst = bytes
//! before − sustained × time before.
//!
//! Source: facts of our own simulation of 300 buckets: burst right to 1.5 % (median), 6 % (90 %).
//! Units: bit/s, bytes. Error: the knee is found to one bin.
//! Wrong when: competing traffic arrives once and stays; or the bucket empties inside the ramp.

use crate::stats::{mad_scale, median, quantile, sort_finite};
use crate::throughput::arrival_timeline::RunArrivals;

/// The parameters of the shaper detection.
struct ShaperFitTuning;

impl ShaperFitTuning {
    /// Bins are joined until they last this long: shorter ones hold too few packets.
    const BIN_US: u64 = 50_000;
    /// The maximum number of bins; more are joined further, because the search resolves seconds, not
    /// milliseconds, and its cost grows with the bins.
    const MAX_BINS: usize = 4000;
    /// The minimum numbers of bins before and after the knee; at 172 ms a bin lasts one round trip.
    const MIN_BINS_BEFORE: usize = 4;
    const MIN_BINS_AFTER: usize = 8;
    /// The minimum step; a smaller one is a change of load.
    const MIN_STEP_RATIO: f64 = 1.08;
    /// The minimum distance of the two levels, in standard errors.
    const MIN_Z: f64 = 6.0;
    /// The maximum difference between the halves of the second part, which has to be level.
    const MAX_DRIFT_AFTER: f64 = 0.06;
    /// The maximum drift in the first part, on top of half the step.
    const MAX_DRIFT_BEFORE: f64 = 0.05;
    /// The minimum scatter assumed, as a share of the level (bins contain whole packets).
    const MIN_SCATTER: f64 = 0.005;
    const RAMP_WIDTH: usize = 5;
    /// The ramp ends when the rate first reaches this share of its maximum running median.
    const RAMP_RATIO: f64 = 0.9;
}

/// A token bucket as seen from the receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShaperFit {
    pub knee_us: u64,
    pub peak_bps: f64,
    pub sustained_bps: f64,
    pub burst_bytes: f64,
}

pub fn find_shaper(arrivals: &RunArrivals) -> Option<ShaperFit> {
    let bins = join_bins(arrivals, ShaperFitTuning::BIN_US);
    let start = find_ramp_end(&bins)?;
    let part = &bins[start..];
    let rates: Vec<f64> = part.iter().map(|b| b.rate_bps).collect();
    let knee =
        find_breakpoint(&rates, ShaperFitTuning::MIN_BINS_BEFORE, ShaperFitTuning::MIN_BINS_AFTER)?;
    let (before, after) = rates.split_at(knee);
    if !is_step_accepted(before, after) {
        return None;
    }
    let (peak_bps, sustained_bps) = (median_rate(before), median_rate(after));
    let excess =
        bins[..start + knee].iter().map(|b| (b.rate_bps - sustained_bps) * b.seconds / 8.0);
    Some(ShaperFit {
        knee_us: part[knee].from_us,
        peak_bps,
        sustained_bps,
        burst_bytes: sum_excess_bytes(excess),
    })
}

/// Sums the excess above 0: the bucket starts full, so tokens that the ramp leaves unused are lost.
fn sum_excess_bytes(excess_bytes: impl Iterator<Item = f64>) -> f64 {
    excess_bytes.fold(0.0, |used, excess| (used + excess).max(0.0))
}

/// Joined bins of arrivals.
pub(super) struct RateSlot {
    pub from_us: u64,
    pub seconds: f64,
    pub rate_bps: f64,
}

/// Joins bins until they last at least this long.
pub(super) fn join_bins(arrivals: &RunArrivals, least_us: u64) -> Vec<RateSlot> {
    let total = arrivals.to_us() - arrivals.from_us();
    let least = least_us.max(ShaperFitTuning::BIN_US).max(total / ShaperFitTuning::MAX_BINS as u64);
    let mut slots = Vec::new();
    let (mut from_us, mut bytes, mut seconds) = (arrivals.from_us(), 0.0, 0.0);
    for bin in &arrivals.bins {
        bytes += bin.bytes;
        seconds += bin.seconds();
        // Accepts bins up to 5 % too short: sampler threads wake slightly early or late.
        if seconds * 1.05e6 >= least as f64 {
            slots.push(RateSlot { from_us, seconds, rate_bps: bytes * 8.0 / seconds });
            (from_us, bytes, seconds) = (bin.to_us, 0.0, 0.0);
        }
    }
    slots
}

fn find_ramp_end(slots: &[RateSlot]) -> Option<usize> {
    let rates: Vec<f64> = slots.iter().map(|s| s.rate_bps).collect();
    let width = ShaperFitTuning::RAMP_WIDTH.min(rates.len().max(1));
    let medians = rates.windows(width).filter_map(|w| median(w.iter().copied()));
    let greatest = medians.reduce(f64::max).filter(|m| *m > 0.0)?;
    rates.iter().position(|r| *r >= ShaperFitTuning::RAMP_RATIO * greatest)
}

/// Returns the point at which two constants fit best, with so many bins before and after it.
pub(super) fn find_breakpoint(rates: &[f64], min_before: usize, min_after: usize) -> Option<usize> {
    let mut sums = vec![(0.0, 0.0)];
    for rate in rates {
        let (sum, squares) = sums[sums.len() - 1];
        sums.push((sum + rate, squares + rate * rate));
    }
    let error = |from: usize, to: usize| {
        let (sum, squares) = (sums[to].0 - sums[from].0, sums[to].1 - sums[from].1);
        squares - sum * sum / (to - from) as f64
    };
    let last = rates.len().checked_sub(min_after)?;
    (min_before..=last)
        .map(|knee| (knee, error(0, knee) + error(knee, rates.len())))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(knee, _)| knee)
}

fn is_step_accepted(before: &[f64], after: &[f64]) -> bool {
    let (high, low) = (median_rate(before), median_rate(after));
    if low <= 0.0 || high / low <= ShaperFitTuning::MIN_STEP_RATIO {
        return false;
    }
    let step = high / low - 1.0;
    measure_step_z(before, after) > ShaperFitTuning::MIN_Z
        && compute_drift(before) < 0.5 * step + ShaperFitTuning::MAX_DRIFT_BEFORE
        && compute_drift(after) < ShaperFitTuning::MAX_DRIFT_AFTER
        && compute_lower_tail(before) > high.midpoint(low)
        && compute_upper_tail(after) < high.midpoint(low)
}

/// A bucket separates the levels: almost no bin of either part lies on the other's side.
fn compute_lower_tail(part: &[f64]) -> f64 {
    quantile(&sort_finite(part.iter().copied()), 0.2).unwrap_or(0.0)
}

fn compute_upper_tail(part: &[f64]) -> f64 {
    quantile(&sort_finite(part.iter().copied()), 0.9).unwrap_or(0.0)
}

/// Returns the distance of the levels of two parts, in standard errors.
pub(super) fn measure_step_z(before: &[f64], after: &[f64]) -> f64 {
    let variance = |part: &[f64]| {
        let least = ShaperFitTuning::MIN_SCATTER * median_rate(part);
        let scatter = mad_scale(part).unwrap_or(0.0).max(least);
        scatter * scatter / part.len() as f64
    };
    let step = (median_rate(before) - median_rate(after)).abs();
    step / (variance(before) + variance(after)).sqrt()
}

/// Returns the difference between the levels of the halves of a part.
pub(super) fn measure_half_step(part: &[f64]) -> f64 {
    let (first, second) = part.split_at(part.len() / 2);
    (median_rate(first) - median_rate(second)).abs()
}

/// Returns the difference between the halves of a part, as a share of its level.
fn compute_drift(part: &[f64]) -> f64 {
    let level = median_rate(part);
    if level > 0.0 { measure_half_step(part) / level } else { 0.0 }
}

pub(super) fn median_rate(part: &[f64]) -> f64 {
    median(part.iter().copied()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stepped(before: usize, after: usize) -> Vec<f64> {
        let wobble = |i: usize| 1.0 + 0.02 * ((i * 7 % 5) as f64 - 2.0) / 2.0;
        let high = (0..before).map(|i| 135e6 * wobble(i));
        high.chain((0..after).map(|i| 67e6 * wobble(i + 3))).collect()
    }

    #[test]
    fn a_lasting_step_down_is_a_bucket_with_three_numbers() {
        let bucket = find_shaper(&RunArrivals::from_rates(&stepped(20, 60), 100_000)).unwrap();
        assert_eq!(bucket.knee_us, 2_000_000);
        assert!((bucket.peak_bps / 135e6 - 1.0).abs() < 0.02);
        assert!((bucket.sustained_bps / 67e6 - 1.0).abs() < 0.02);
        assert!((bucket.burst_bytes / 17e6 - 1.0).abs() < 0.03, "{}", bucket.burst_bytes);
    }

    #[test]
    fn a_dip_a_step_up_and_a_slope_are_no_bucket() {
        let mut dip = vec![100e6; 80];
        dip[30..36].fill(40e6);
        let mut up = stepped(20, 60);
        up.reverse();
        let slope: Vec<f64> = (0..80).map(|i| 100e6 - 5e5 * f64::from(i)).collect();
        for rates in [dip, up, slope, vec![0.0; 80], Vec::new()] {
            assert_eq!(find_shaper(&RunArrivals::from_rates(&rates, 100_000)), None);
        }
    }
}
