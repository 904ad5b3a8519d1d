//! The knee of a burst: where its rate changes to a lower one.
//!
//! Compares two lines through arrival times over bytes with a single one; they meet at the knee.
//!
//! Source: two-piece regression with an F test. Units: bytes of IP, bit/s. Error: one packet.
//! Wrong when: cross traffic slows the later half of a burst; several bursts must agree.
//!
//! # Repeated knees
//!
//! Detection of a bucket that empties at the beginning of each long train that follows a rest.
//!
//! A bucket of about ten to some hundred packets empties before one bin of the long trains is full,
//! and outlasts a burst. The first long train shows where it may have run dry. Shorter trains at
//! the same rate, with a rest before every second one, show whether this happens each time.
//!
//! Source: the same knee as in bursts. Units: bytes of IP, bit/s. Error: rate 2 %, burst 5 %.
//! Wrong when: cross traffic fills the link in the same rhythm.

use super::{
    TokenBucketEstimate, TokenBucketKind, compute_knee_position, find_agreeing_knees,
    knees_recur_without_rest, summarize_knees,
};
use crate::available_bandwidth::TrainEvidence;
use crate::available_bandwidth::train_reading::{ReceivedPacket, TrainReading};
use crate::stats::median;
use longhaul_model::report::v1::available::TrainPurpose;

/// The parameters of the knee of one train.
struct KneeTuning;

impl KneeTuning {
    /// The minimum number of packets on each side of the knee.
    const MIN_SIDE_PACKETS: usize = 3;
    /// The minimum ratio of the rates; a smaller step is cross traffic.
    const MIN_RATE_STEP: f64 = 1.15;
    /// The minimum F statistic of the two lines against the single one.
    const MIN_F_STATISTIC: f64 = 20.0;
    /// The maximum number of positions tested as the knee; more points are sampled evenly.
    const MAX_KNEE_POSITIONS: usize = 400;
    /// The assumed error of a timestamp.
    const STAMP_S: f64 = 0.5e-6;
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateKnee {
    pub peak_bps: f64,
    pub sustained_bps: f64,
    /// The number of bytes that had passed at the change.
    pub at_bytes: f64,
    /// The size of the bucket.
    pub burst_bytes: f64,
    pub packet_bytes: f64,
}

/// A line of arrival time over bytes.
#[derive(Debug, Clone, Copy)]
struct ArrivalLine {
    start_s: f64,
    s_per_byte: f64,
    error: f64,
}

/// Fits the line of least squares.
fn fit_line(points: &[(f64, f64)]) -> ArrivalLine {
    let mut sums = [0.0; 5];
    for (x, y) in points {
        for (sum, term) in sums.iter_mut().zip([1.0, *x, *y, x * x, x * y]) {
            *sum += term;
        }
    }
    let [n, x, y, xx, xy] = sums;
    let spread = n * xx - x * x;
    let s_per_byte = if spread > 0.0 { (n * xy - x * y) / spread } else { 0.0 };
    let start_s = (y - s_per_byte * x) / n;
    let off = points.iter().map(|p| (p.1 - start_s - s_per_byte * p.0).powi(2));
    ArrivalLine { start_s, s_per_byte, error: off.sum() }
}

pub fn find_knee(reading: &TrainReading) -> Option<RateKnee> {
    find_knee_in(&list_arrival_points(&reading.kept, reading.bits / 8.0), reading)
}

/// Finds the knee from the packets that arrived, despite loss: for trains that outlast the queue.
pub fn find_knee_by_arrivals(reading: &TrainReading) -> Option<RateKnee> {
    let arrived = reading.points.iter().enumerate();
    let points: Vec<ReceivedPacket> =
        arrived.map(|(index, point)| ReceivedPacket { index, ..*point }).collect();
    find_knee_in(&self::list_arrival_points(&points, reading.bits / 8.0), reading)
}

fn find_knee_in(points: &[(f64, f64)], reading: &TrainReading) -> Option<RateKnee> {
    if points.len() < 2 * KneeTuning::MIN_SIDE_PACKETS + 2 {
        return None;
    }
    let whole = fit_line(points);
    let step = points.len().div_ceil(KneeTuning::MAX_KNEE_POSITIONS);
    let (first, second) = (KneeTuning::MIN_SIDE_PACKETS
        ..=points.len() - KneeTuning::MIN_SIDE_PACKETS)
        .step_by(step)
        .map(|at| (fit_line(&points[..at]), fit_line(&points[at..])))
        .min_by(|a, b| (a.0.error + a.1.error).total_cmp(&(b.0.error + b.1.error)))?;
    let freedom = points.len() as f64 - 4.0;
    let floor = points.len() as f64 * KneeTuning::STAMP_S * KneeTuning::STAMP_S;
    let two = (first.error + second.error).max(floor);
    let better = (whole.error - two) / 2.0 / (two / freedom);
    let slows =
        first.s_per_byte > 0.0 && second.s_per_byte > KneeTuning::MIN_RATE_STEP * first.s_per_byte;
    if !slows || better < KneeTuning::MIN_F_STATISTIC {
        return None;
    }
    let at_bytes = (first.start_s - second.start_s) / (second.s_per_byte - first.s_per_byte);
    if !(0.0..reading.packets as f64 * reading.bits / 8.0).contains(&at_bytes) {
        return None;
    }
    let ratio = first.s_per_byte / second.s_per_byte;
    Some(RateKnee {
        peak_bps: 8.0 / first.s_per_byte,
        sustained_bps: 8.0 / second.s_per_byte,
        at_bytes,
        // A packet leaves when its tokens are available, and arrives a transmission time later.
        burst_bytes: at_bytes * (1.0 - ratio) + ratio * reading.bits / 8.0,
        packet_bytes: reading.bits / 8.0,
    })
}

/// Returns the bytes up to and including each packet, and its arrival time.
fn list_arrival_points(kept: &[ReceivedPacket], packet_bytes: f64) -> Vec<(f64, f64)> {
    let Some(first) = kept.first() else {
        return Vec::new();
    };
    let of =
        |p: &ReceivedPacket| ((p.index + 1) as f64 * packet_bytes, p.received_s - first.received_s);
    kept.iter().map(of).collect()
}

/// The parameters of a knee that repeats.
pub struct RepeatedKneeTuning;

impl RepeatedKneeTuning {
    /// The minimum gap that ends the first round of long trains.
    const ROUND_GAP_S: f64 = 0.5;
    /// The maximum relative deviation of the long trains' rate from the sustained rate.
    const MAX_RATE_DEVIATION: f64 = 0.1;
    /// The excess is queued if the delay grows by this share of the time, or steps up by this time.
    const MIN_DELAY_STRAIN: f64 = 0.05;
    pub const MIN_QUEUE_WAIT_S: f64 = 5e-3;
    /// The minimum ratio of peak to sustained rate at which a single knee justifies a repetition.
    const MIN_RATE_STEP: f64 = 1.15;
    /// The rest before a train after which the bucket counts as full again.
    const RESTED_S: f64 = 0.05;
}

/// Returns the knee of the first long train if it slowed down for good, as by an empty bucket.
pub fn find_knee_hint(evidence: &TrainEvidence) -> Option<RateKnee> {
    let trains = list_first_long_trains(evidence);
    let knee = find_knee_by_arrivals(trains.first()?)?;
    let stays = is_rate_sustained(&trains, knee.sustained_bps);
    (stays && knee.peak_bps > RepeatedKneeTuning::MIN_RATE_STEP * knee.sustained_bps)
        .then_some(knee)
}

/// Finds a bucket that empties in each train after a rest, and in no other train.
pub fn find_repeated_knee(evidence: &TrainEvidence) -> Option<TokenBucketEstimate> {
    let trains = list_long_readings(evidence);
    let look = list_first_long_trains(evidence).len();
    let (mut rested, mut late) = (vec![*trains.first()?], Vec::new());
    for pair in trains[look.saturating_sub(1)..].windows(2) {
        let rest_s = pair[1].sent_s[0] - pair[0].sent_s[1];
        if rest_s >= RepeatedKneeTuning::RESTED_S {
            rested.push(pair[1]);
        } else {
            late.push(pair[1]);
        }
    }
    let knees = find_agreeing_knees(&rested, find_knee_by_arrivals)?;
    let sustained_bps = median(knees.iter().map(|k| k.sustained_bps))?;
    if late.is_empty()
        || knees_recur_without_rest(&late, &knees, find_knee_by_arrivals)
        || !is_rate_sustained(&trains[..look], sustained_bps)
    {
        return None;
    }
    let waits = rested.iter().filter(|r| is_queued_after_knee(r, &knees)).count();
    let kind =
        if 2 * waits > rested.len() { TokenBucketKind::Shaper } else { TokenBucketKind::Policer };
    summarize_knees(&knees, kind, 0.9)
}

fn list_long_readings(evidence: &TrainEvidence) -> Vec<&TrainReading> {
    evidence.readings.iter().filter(|r| r.purpose == TrainPurpose::Bucket).collect()
}

/// Returns the long trains before the repetitions.
pub fn list_first_long_trains(evidence: &TrainEvidence) -> Vec<&TrainReading> {
    let mut trains = list_long_readings(evidence);
    let is_rest = |pair: &[&TrainReading]| {
        pair[1].sent_s[0] - pair[0].sent_s[1] >= RepeatedKneeTuning::ROUND_GAP_S
    };
    let last = trains.windows(2).position(is_rest);
    trains.truncate(last.map_or(trains.len(), |last| last + 1));
    trains
}

/// Returns whether the long trains continued at this rate, from the median arrival to the last one.
fn is_rate_sustained(look: &[&TrainReading], sustained_bps: f64) -> bool {
    let arrived: Vec<f64> =
        look.iter().flat_map(|r| r.points.iter().map(|p| p.received_s)).collect();
    let later = &arrived[arrived.len() / 2..];
    let (Some(from), Some(to), Some(first)) = (later.first(), later.last(), look.first()) else {
        return false;
    };
    let bps = (later.len() - 1) as f64 * first.bits / (to - from).max(1e-9);
    (bps / sustained_bps - 1.0).abs() < RepeatedKneeTuning::MAX_RATE_DEVIATION
}

/// Returns whether packets after the knee were queued.
fn is_queued_after_knee(reading: &TrainReading, knees: &[RateKnee]) -> bool {
    let at =
        ((compute_knee_position(knees) * 8.0 / reading.bits) as usize).min(reading.points.len());
    let (before, after) = reading.points.split_at(at);
    let (Some(from), Some(to)) = (after.first(), after.last()) else {
        return false;
    };
    let strain = (to.delay_s() - from.delay_s()) / (to.sent_s - from.sent_s).max(1e-9);
    let middle = |part: &[_]| {
        median(part.iter().map(crate::available_bandwidth::train_reading::ReceivedPacket::delay_s))
    };
    let waited = middle(after).zip(middle(before));
    strain > RepeatedKneeTuning::MIN_DELAY_STRAIN
        || waited.is_some_and(|(late, soon)| late - soon > RepeatedKneeTuning::MIN_QUEUE_WAIT_S)
}
