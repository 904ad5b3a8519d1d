//! Detection of a bucket by a single permanent step down in the rate of long trains.
//!
//! Bins the arrivals of the long trains and applies the shaper test of bulk transfers.
//!
//! Source: [`crate::limit::shaper_fit`]. Units: bytes of IP, bit/s. Error: rate 1 %, burst 2 %.
//! Wrong when: cross traffic starts once and continues, or the bucket outlasts the train.

use super::{ProbeTrain, TokenBucketEstimate, TokenBucketKind, list_long_trains};
use crate::limit::shaper_fit;
use crate::stats::quantile::median;
use crate::throughput::arrival_timeline::RunArrivals;

/// The parameters of the step of the rate within a train.
struct RateStepTuning;

impl RateStepTuning {
    /// The length of a bin, and the minimum number of packets in it.
    const BIN_US: u64 = 50_000;
    const MIN_PACKETS_IN_BIN: f64 = 20.0;
    /// A policer loses at least this share of the excess after the knee.
    const POLICER_PART: f64 = 0.5;
    /// Packets whose delay grew by more than this after the knee were queued.
    const MIN_QUEUE_WAIT_S: f64 = 5e-3;
}

/// Finds a bucket that the long trains emptied.
pub fn find_rate_step(trains: &[ProbeTrain]) -> Option<TokenBucketEstimate> {
    let trains = list_long_trains(trains);
    let bytes = f64::from(trains.first()?.packet_bytes);
    let mut arrived: Vec<u64> = trains
        .iter()
        .flat_map(|t| t.received_ns.iter().flatten().map(|ns| t.received_at_ns.saturating_add(*ns)))
        .collect();
    arrived.sort_unstable();
    let (first, last) = (*arrived.first()?, *arrived.last()?);
    let seconds = (last - first) as f64 / 1e9;
    let needed_us = RateStepTuning::MIN_PACKETS_IN_BIN * seconds * 1e6 / arrived.len() as f64;
    let bin_us = RateStepTuning::BIN_US.max(needed_us as u64);
    let rates = compute_bin_rates(&arrived, first, bin_us, bytes);
    let found = shaper_fit::find_shaper(&RunArrivals::from_rates(&rates, bin_us))?;
    let (offered_bps, lost_ratio) = measure_after_knee(&trains, first, found.knee_us, bytes)?;
    let expected = 1.0 - found.sustained_bps / offered_bps;
    // A shaper whose queue overflows loses as much as a policer, but its packets were queued.
    let waits = compute_added_delay_s(&trains, first + found.knee_us * 1000)
        .is_some_and(|s| s > RateStepTuning::MIN_QUEUE_WAIT_S);
    let kind = if !waits && lost_ratio > RateStepTuning::POLICER_PART * expected && expected > 0.0 {
        TokenBucketKind::Policer
    } else {
        TokenBucketKind::Shaper
    };
    let around =
        |value: f64, ratio: f64| [(value * (1.0 - ratio)) as u64, (value * (1.0 + ratio)) as u64];
    Some(TokenBucketEstimate {
        kind,
        peak_bps: found.peak_bps as u64,
        sustained_bps: found.sustained_bps as u64,
        sustained_interval_bps: Some(around(found.sustained_bps, 0.02)),
        burst_bytes: found.burst_bytes as u64,
        burst_interval_bytes: Some(around(found.burst_bytes, 0.06)),
        confidence_ratio: 0.9,
    })
}

/// Returns the rate of each complete bin.
fn compute_bin_rates(arrived: &[u64], first: u64, bin_us: u64, bytes: f64) -> Vec<f64> {
    let place = |ns: u64| ((ns - first) / 1000 / bin_us) as usize;
    let last = arrived.last().map_or(0, |ns| place(*ns));
    let mut counts = vec![0u64; last + 1];
    for ns in arrived {
        counts[place(*ns)] += 1;
    }
    // The last bin is rarely complete.
    counts.pop();
    counts.iter().map(|n| *n as f64 * bytes * 8e6 / bin_us as f64).collect()
}

/// Returns the increase of the median delay after the knee.
fn compute_added_delay_s(trains: &[&ProbeTrain], knee_ns: u64) -> Option<f64> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for train in trains {
        for (sent, received) in train.sent_ns.iter().zip(&train.received_ns) {
            let Some(received) = received else { continue };
            let received_ns = train.received_at_ns.saturating_add(*received);
            let sent_ns = train.sent_at_ns.saturating_add(*sent);
            let delay_s = (i128::from(received_ns) - i128::from(sent_ns)) as f64 / 1e9;
            let side = if received_ns < knee_ns { &mut before } else { &mut after };
            side.push(delay_s);
        }
    }
    Some(median(after)? - median(before)?)
}

/// Returns the sending rate after the knee, and the loss ratio.
fn measure_after_knee(
    trains: &[&ProbeTrain],
    first: u64,
    knee_us: u64,
    bytes: f64,
) -> Option<(f64, f64)> {
    let knee_ns = first + knee_us * 1000;
    let (mut sent, mut lost, mut span_ns) = (0usize, 0usize, 0u64);
    for train in trains.iter().filter(|t| t.received_at_ns >= knee_ns) {
        sent += train.sent_ns.len();
        lost += train.received_ns.iter().filter(|t| t.is_none()).count();
        span_ns += train.sent_ns.last()?.saturating_sub(*train.sent_ns.first()?);
    }
    (span_ns > 0 && sent > 0)
        .then(|| (sent as f64 * bytes * 8e9 / span_ns as f64, lost as f64 / sent as f64))
}
