//! Detection of a token bucket on the path.
//!
//! Small buckets show on every burst: the first packets pass at the peak rate, the rest at the
//! sustained rate. Large ones show only on long trains at full rate. Those in between empty at the
//! start of the long trains, which is therefore repeated. A policer drops what a shaper would
//! queue; one long train suffices if it loses packets at a constant rate.
//!
//! Source: docs/methods/available-bandwidth.md, after ShaperProbe (Kanuparthy and Dovrolis 2011).
//! Units: bytes of IP, bit/s. Error: rate 1 %, burst 2 %, small ones ±1 packet.
//! Wrong when: cross traffic starts once and continues.
//!
//! # Rate step
//!
//! Detection of a bucket by a single permanent step down in the rate of long trains.
//!
//! Bins the arrivals of the long trains and applies the shaper test of bulk transfers.
//!
//! Source: [`crate::limit::shaper_fit`]. Units: bytes of IP, bit/s. Error: rate 1 %, burst 2 %.
//! Wrong when: cross traffic starts once and continues, or the bucket outlasts the train.

mod knee;
mod policed_train;

use super::TrainEvidence;
use super::train_reading::TrainReading;
use crate::available_bandwidth::train_reading::ReceivedPacket;
use crate::limit::shaper_fit;
use crate::stats::{median, quantile, sort_finite};
use crate::throughput::arrival_timeline::RunArrivals;
use knee::RateKnee;
use longhaul_model::report::v1::available::{TokenBucketEstimate, TokenBucketKind, TrainPurpose};
use policed_train::find_policed_train;

pub use knee::{find_knee_hint, find_repeated_knee};

/// The parameters of the detection of token buckets.
struct BucketDetectionTuning;

impl BucketDetectionTuning {
    /// The minimum number of bursts with the same knee.
    const MIN_KNEES: usize = 3;
    /// The minimum burst, in packets. The first packets of a train leave a busy host faster than
    /// the rest: a test host without a shaper showed knees at 2.4 packets.
    const MIN_BURST_PACKETS: f64 = 4.0;
    /// Two knees agree if they differ by no more than this ratio or one packet.
    const AGREE_RATIO: f64 = 0.25;
    /// The minimum half-width of the burst's interval, as a ratio; it is also at least one packet.
    const BURST_ERROR: f64 = 0.03;
    /// Trains of this many times the knee's position must show it.
    const LONG_ENOUGH: f64 = 1.5;
    /// The maximum share of bursts without rest that show the knee: an empty bucket shows none.
    const MAX_REPEATED_KNEES_RATIO: f64 = 0.5;
    /// The rest before a train after which the bucket counts as full again.
    const RESTED_S: f64 = 0.01;
}

/// Returns the bytes of the longest train: a bucket that outlasts it is not seen.
pub fn measure_longest_train(evidence: &TrainEvidence) -> Option<u64> {
    let bytes = |train: &TrainReading| (train.packets as f64 * train.bits / 8.0) as u64;
    let long: u64 = knee::list_first_long_trains(evidence).into_iter().map(bytes).sum();
    let trains = evidence.readings.iter().filter(|train| train.purpose != TrainPurpose::Idle);
    trains.map(bytes).max().map(|longest| longest.max(long))
}

/// Returns whether most bursts after a rest have a knee at the same position.
pub fn is_bucket_suspected(evidence: &TrainEvidence) -> bool {
    find_agreeing_knees(&list_rested_bursts(evidence), knee::find_knee).is_some()
}

/// Finds a bucket that empties within a burst.
pub fn find_small_bucket(evidence: &TrainEvidence) -> Option<TokenBucketEstimate> {
    let knees = find_agreeing_knees(&list_rested_bursts(evidence), knee::find_knee)?;
    let packet = knees.iter().map(|knee| knee.packet_bytes).fold(0.0, f64::max);
    if compute_knee_position(&knees) < BucketDetectionTuning::MIN_BURST_PACKETS * packet {
        return None;
    }
    let late = list_bursts_after(evidence, |rest_s| rest_s < BucketDetectionTuning::RESTED_S / 2.0);
    if knees_recur_without_rest(&late, &knees, knee::find_knee) {
        return None;
    }
    let confidence_ratio = if late.is_empty() { 0.7 } else { 0.95 };
    summarize_knees(&knees, TokenBucketKind::Shaper, confidence_ratio)
}

/// Returns whether trains without rest show the knee too. Then it is not from a bucket.
fn knees_recur_without_rest(
    late: &[&TrainReading],
    knees: &[RateKnee],
    find: fn(&TrainReading) -> Option<RateKnee>,
) -> bool {
    let place = compute_knee_position(knees);
    let same = |r: &&&TrainReading| find(r).is_some_and(|k| is_knee_at(&k, place));
    late.iter().filter(same).count() as f64
        > BucketDetectionTuning::MAX_REPEATED_KNEES_RATIO * late.len() as f64
}

/// Summarises the knees: their medians and their spread.
fn summarize_knees(
    knees: &[RateKnee],
    kind: TokenBucketKind,
    confidence_ratio: f64,
) -> Option<TokenBucketEstimate> {
    let of = |value: fn(&RateKnee) -> f64| median(knees.iter().map(value));
    let span = |value: fn(&RateKnee) -> f64| {
        let sorted = sort_finite(knees.iter().map(value));
        Some([quantile(&sorted, 0.1)?, quantile(&sorted, 0.9)?])
    };
    let (sustained, burst) = (of(|k| k.sustained_bps)?, of(|k| k.burst_bytes)?);
    let [slow, fast] = span(|k| k.sustained_bps)?;
    let [small, large] = span(|k| k.burst_bytes)?;
    let packet = knees.iter().map(|k| k.packet_bytes).fold(0.0, f64::max);
    let least = packet.max(BucketDetectionTuning::BURST_ERROR * burst);
    Some(TokenBucketEstimate {
        kind,
        peak_bps: of(|k| k.peak_bps)? as u64,
        sustained_bps: sustained as u64,
        sustained_interval_bps: Some([
            slow.min(0.98 * sustained) as u64,
            fast.max(1.02 * sustained) as u64,
        ]),
        burst_bytes: burst as u64,
        burst_interval_bytes: Some([
            small.min(burst - least).max(0.0) as u64,
            large.max(burst + least) as u64,
        ]),
        confidence_ratio,
    })
}

/// Returns the bursts that began after a rest.
fn list_rested_bursts(evidence: &TrainEvidence) -> Vec<&TrainReading> {
    list_bursts_after(evidence, |rest_s| rest_s >= BucketDetectionTuning::RESTED_S)
}

/// Returns each burst with the time since the end of the previous train.
fn list_bursts_after(evidence: &TrainEvidence, fits: impl Fn(f64) -> bool) -> Vec<&TrainReading> {
    let mut busy_until = f64::MIN;
    let mut found = Vec::new();
    for train in &evidence.readings {
        let clean = train.purpose == TrainPurpose::Burst && train.lost == 0;
        if clean && fits(train.sent_s[0] - busy_until) {
            found.push(train);
        }
        if train.purpose != TrainPurpose::Idle {
            busy_until = busy_until.max(train.sent_s[0] + train.received_span_s());
        }
    }
    found
}

/// Returns the knees if most of the trains that are long enough show one at the same position.
fn find_agreeing_knees(
    trains: &[&TrainReading],
    find: fn(&TrainReading) -> Option<RateKnee>,
) -> Option<Vec<RateKnee>> {
    let knees: Vec<RateKnee> = trains.iter().filter_map(|r| find(r)).collect();
    let place = median(knees.iter().map(|k| k.at_bytes))?;
    let long_enough = trains
        .iter()
        .filter(|r| r.packets as f64 * r.bits / 8.0 > BucketDetectionTuning::LONG_ENOUGH * place)
        .count();
    let same: Vec<RateKnee> = knees.into_iter().filter(|k| is_knee_at(k, place)).collect();
    (same.len() >= BucketDetectionTuning::MIN_KNEES && 4 * same.len() >= 3 * long_enough)
        .then_some(same)
}

fn is_knee_at(knee: &RateKnee, place: f64) -> bool {
    (knee.at_bytes - place).abs()
        <= (BucketDetectionTuning::AGREE_RATIO * place).max(1.5 * knee.packet_bytes)
}

/// The median position of the knees, in bytes.
fn compute_knee_position(knees: &[RateKnee]) -> f64 {
    median(knees.iter().map(|k| k.at_bytes)).unwrap_or(0.0)
}

/// The parameters of the step of the rate within a train.
struct RateStepTuning;

impl RateStepTuning {
    /// The length of a bin, and the minimum number of packets in it.
    const BIN_US: u64 = 50_000;
    const MIN_PACKETS_IN_BIN: f64 = 20.0;
    /// A policer loses at least this share of the excess after the knee.
    const POLICER_PART: f64 = 0.5;
}

/// Finds a bucket that shows without repetitions of the long trains.
pub fn find_large_bucket(evidence: &TrainEvidence) -> Option<TokenBucketEstimate> {
    find_rate_step(evidence).or_else(|| find_policed_train(evidence))
}

/// Finds a bucket that the long trains emptied.
fn find_rate_step(evidence: &TrainEvidence) -> Option<TokenBucketEstimate> {
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
    Some(TokenBucketEstimate {
        kind,
        peak_bps: found.peak_bps as u64,
        sustained_bps: found.sustained_bps as u64,
        sustained_interval_bps: Some(list_bounds(found.sustained_bps, 0.02)),
        burst_bytes: found.burst_bytes as u64,
        burst_interval_bytes: Some(list_bounds(found.burst_bytes, 0.06)),
        confidence_ratio: 0.9,
    })
}

/// Returns the bounds at this relative distance.
fn list_bounds(value: f64, ratio: f64) -> [u64; 2] {
    [(value * (1.0 - ratio)) as u64, (value * (1.0 + ratio)) as u64]
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
