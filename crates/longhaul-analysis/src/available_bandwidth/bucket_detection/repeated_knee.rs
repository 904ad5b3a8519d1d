//! Detection of a bucket that empties at the beginning of each long train that follows a rest.
//!
//! A bucket of about ten to some hundred packets empties before one bin of the long trains is full,
//! and outlasts a burst. The first long train shows where it may have run dry. Shorter trains at
//! the same rate, with a rest before every second one, show whether this happens each time.
//!
//! Source: the same knee as in bursts. Units: bytes of IP, bit/s. Error: rate 2 %, burst 5 %.
//! Wrong when: cross traffic fills the link in the same rhythm.

use super::{
    RateKnee, TokenBucketEstimate, TokenBucketKind, compute_knee_position, find_agreeing_knees,
    knee, knees_recur_without_rest, summarize_knees,
};
use crate::available_bandwidth::train_evidence::TrainEvidence;
use crate::available_bandwidth::train_reading::TrainReading;
use crate::stats::quantile::median;
use longhaul_model::report::v1::available::TrainPurpose;

/// The parameters of a knee that repeats.
struct RepeatedKneeTuning;

impl RepeatedKneeTuning {
    /// The rest before a train after which the bucket counts as full again.
    const RESTED_S: f64 = 0.05;
    /// The minimum ratio of peak to sustained rate at which a single knee justifies a repetition.
    const MIN_RATE_STEP: f64 = 1.3;
    /// The maximum relative deviation of the long trains' rate from the sustained rate.
    const MAX_RATE_DEVIATION: f64 = 0.1;
    /// The excess is queued if the delay grows by this share of the time, or steps up by this time.
    const MIN_DELAY_STRAIN: f64 = 0.05;
    const MIN_QUEUE_WAIT_S: f64 = 5e-3;
}

/// Returns the knee of the first long train if it slowed down for good, as by an empty bucket.
pub fn find_knee_hint(evidence: &TrainEvidence) -> Option<RateKnee> {
    let trains = list_trains_in_order(evidence);
    let knee = knee::find_knee_by_arrivals(trains.first()?)?;
    let stays = is_rate_sustained(&trains[..count_first_trains(&trains)], knee.sustained_bps);
    (stays && knee.peak_bps > RepeatedKneeTuning::MIN_RATE_STEP * knee.sustained_bps)
        .then_some(knee)
}

/// Finds a bucket that empties in each train after a rest, and in no other train.
pub fn find_repeated_knee(evidence: &TrainEvidence) -> Option<TokenBucketEstimate> {
    let trains = list_trains_in_order(evidence);
    let look = count_first_trains(&trains);
    let (mut rested, mut late) = (vec![*trains.first()?], Vec::new());
    for pair in trains[look.saturating_sub(1)..].windows(2) {
        let rest_s = pair[1].sent_s[0] - pair[0].sent_s[1];
        if rest_s >= RepeatedKneeTuning::RESTED_S {
            rested.push(pair[1]);
        } else {
            late.push(pair[1]);
        }
    }
    let knees = find_agreeing_knees(&rested, knee::find_knee_by_arrivals)?;
    let sustained_bps = median(knees.iter().map(|k| k.sustained_bps))?;
    if late.is_empty()
        || knees_recur_without_rest(&late, &knees, knee::find_knee_by_arrivals)
        || !is_rate_sustained(&trains[..look], sustained_bps)
    {
        return None;
    }
    let waits = rested.iter().filter(|r| is_queued_after_knee(r, &knees)).count();
    let kind =
        if 2 * waits > rested.len() { TokenBucketKind::Shaper } else { TokenBucketKind::Policer };
    summarize_knees(&knees, kind, 0.9)
}

fn list_trains_in_order(evidence: &TrainEvidence) -> Vec<&TrainReading> {
    let all = evidence.readings.iter();
    let mut trains: Vec<&TrainReading> =
        all.filter(|r| r.purpose == TrainPurpose::Bucket).collect();
    trains.sort_by(|a, b| a.sent_s[0].total_cmp(&b.sent_s[0]));
    trains
}

/// The number of long trains before the first rest.
fn count_first_trains(trains: &[&TrainReading]) -> usize {
    let rests = trains
        .windows(2)
        .position(|pair| pair[1].sent_s[0] - pair[0].sent_s[1] >= RepeatedKneeTuning::RESTED_S);
    rests.map_or(trains.len(), |last| last + 1)
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
