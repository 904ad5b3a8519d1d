//! Detection of a bucket by a single permanent step down in the rate of long trains.
//!
//! Bins the arrivals of the long trains and applies the shaper test of bulk transfers.
//!
//! Source: [`crate::limit::shaper_fit`]. Units: bytes of IP, bit/s. Error: rate 1 %, burst 2 %.
//! Wrong when: cross traffic starts once and continues, or the bucket outlasts the train.

use super::{TokenBucketEstimate, TokenBucketKind, knee};
use crate::available_bandwidth::train_evidence::TrainEvidence;
use crate::available_bandwidth::train_reading::{ReceivedPacket, TrainReading};
use crate::limit::shaper_fit;
use crate::stats::quantile::{median, sort_finite};
use crate::throughput::arrival_timeline::RunArrivals;

/// The parameters of the step of the rate within a train.
struct RateStepTuning;

impl RateStepTuning {
    /// The length of a bin, and the minimum number of packets in it.
    const BIN_US: u64 = 50_000;
    const MIN_PACKETS_IN_BIN: f64 = 20.0;
    /// A policer loses at least this share of the excess after the knee.
    const POLICER_PART: f64 = 0.5;
}

/// Finds a bucket that the long trains emptied.
pub fn find_rate_step(evidence: &TrainEvidence) -> Option<TokenBucketEstimate> {
    let trains = knee::list_first_long_trains(evidence);
    let bits = trains.first()?.bits;
    let arrived = sort_finite(trains.iter().flat_map(|r| r.points.iter().map(|p| p.received_s)));
    let (first_s, last_s) = (*arrived.first()?, *arrived.last()?);
    let needed_us =
        RateStepTuning::MIN_PACKETS_IN_BIN * (last_s - first_s) * 1e6 / arrived.len() as f64;
    let bin_us = RateStepTuning::BIN_US.max(needed_us as u64);
    let rates = compute_bin_rates(&arrived, bin_us, bits);
    let found = shaper_fit::find_shaper(&RunArrivals::from_rates(&rates, bin_us))?;
    let knee_s = first_s + found.knee_us as f64 / 1e6;
    let (offered_bps, lost_ratio) = measure_after_knee(&trains, knee_s, bits)?;
    let expected = 1.0 - found.sustained_bps / offered_bps;
    // A shaper whose queue overflows loses as much as a policer, but its packets were queued.
    let waits = compute_added_delay_s(&trains, knee_s)
        .is_some_and(|s| s > knee::RepeatedKneeTuning::MIN_QUEUE_WAIT_S);
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
fn compute_bin_rates(arrived: &[f64], bin_us: u64, bits: f64) -> Vec<f64> {
    let mut counts: Vec<u64> = Vec::new();
    for received_s in arrived {
        let place = ((received_s - arrived[0]) * 1e6 / bin_us as f64) as usize;
        counts.resize(place + 1, 0);
        counts[place] += 1;
    }
    // The last bin is rarely complete.
    counts.pop();
    counts.iter().map(|n| *n as f64 * bits * 1e6 / bin_us as f64).collect()
}

/// Returns the increase of the median delay after the knee.
fn compute_added_delay_s(trains: &[&TrainReading], knee_s: f64) -> Option<f64> {
    let points = || trains.iter().flat_map(|r| &r.points);
    let before = points().filter(|p| p.received_s < knee_s).map(ReceivedPacket::delay_s);
    let after = points().filter(|p| p.received_s >= knee_s).map(ReceivedPacket::delay_s);
    Some(median(after)? - median(before)?)
}

/// Returns the sending rate after the knee, and the loss ratio.
fn measure_after_knee(trains: &[&TrainReading], knee_s: f64, bits: f64) -> Option<(f64, f64)> {
    let (mut sent, mut lost, mut span_s) = (0usize, 0usize, 0.0);
    for train in trains.iter().filter(|r| r.points[0].received_s >= knee_s) {
        sent += train.packets;
        lost += train.lost;
        span_s += train.sent_span_s();
    }
    (span_s > 0.0).then(|| (sent as f64 * bits / span_s, lost as f64 / sent as f64))
}
