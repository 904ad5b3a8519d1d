//! Detection of a bucket that empties at the beginning of each long train that follows a rest.
//!
//! A bucket of about ten to some hundred packets empties before one bin of the long trains is full,
//! and outlasts a burst. The first long train shows where it may have run dry. Shorter trains at
//! the same rate, with a rest before every second one, show whether this happens each time.
//!
//! Source: the same knee as in bursts. Units: bytes of IP, bit/s. Error: rate 2 %, burst 5 %.
//! Wrong when: cross traffic fills the link in the same rhythm.

use super::{Bucket, BucketKind, Knee, agreed, are_forgetful, described, knee, place};
use crate::available::evidence::Evidence;
use crate::available::reading::Reading;
use crate::stats::quantile::median;
use longhaul_model::report::v1::available::Purpose;

/// The rest before a train after which the bucket counts as full again.
const RESTED_S: f64 = 0.05;
/// The minimum ratio of peak to sustained rate at which a single knee justifies a repetition.
const LEAST_STEP: f64 = 1.3;
/// The maximum relative deviation of the long trains' rate from the sustained rate.
const MOST_OFF: f64 = 0.1;
/// The excess is queued if the delay grows by this share of the time, or steps up by this time.
const LEAST_STRAIN: f64 = 0.05;
const LEAST_WAIT_S: f64 = 5e-3;

/// Returns the knee of the first long train if it slowed down for good, as by an empty bucket.
pub fn hint(evidence: &Evidence) -> Option<Knee> {
    let trains = in_order(evidence);
    let knee = knee::find_counted(trains.first()?)?;
    let stays = held(&trains[..look(&trains)], knee.sustained_bps);
    (stays && knee.peak_bps > LEAST_STEP * knee.sustained_bps).then_some(knee)
}

/// Finds a bucket that empties in each train after a rest, and in no other train.
pub fn again(evidence: &Evidence) -> Option<Bucket> {
    let trains = in_order(evidence);
    let look = look(&trains);
    let (mut rested, mut late) = (vec![*trains.first()?], Vec::new());
    for pair in trains[look.saturating_sub(1)..].windows(2) {
        let rest_s = pair[1].sent_s[0] - pair[0].sent_s[1];
        if rest_s >= RESTED_S {
            rested.push(pair[1]);
        } else {
            late.push(pair[1]);
        }
    }
    let knees = agreed(&rested, knee::find_counted)?;
    let sustained_bps = median(knees.iter().map(|k| k.sustained_bps))?;
    if late.is_empty()
        || are_forgetful(&late, &knees, knee::find_counted)
        || !held(&trains[..look], sustained_bps)
    {
        return None;
    }
    let waits = rested.iter().filter(|r| waits(r, &knees)).count();
    let kind = if 2 * waits > rested.len() {
        BucketKind::Shaper
    } else {
        BucketKind::Policer
    };
    described(&knees, kind, 0.9)
}

fn in_order(evidence: &Evidence) -> Vec<&Reading> {
    let all = evidence.readings.iter();
    let mut trains: Vec<&Reading> = all.filter(|r| r.purpose == Purpose::Bucket).collect();
    trains.sort_by(|a, b| a.sent_s[0].total_cmp(&b.sent_s[0]));
    trains
}

/// The number of long trains before the first rest.
fn look(trains: &[&Reading]) -> usize {
    let rests = trains
        .windows(2)
        .position(|pair| pair[1].sent_s[0] - pair[0].sent_s[1] >= RESTED_S);
    rests.map_or(trains.len(), |last| last + 1)
}

/// Returns whether the long trains continued at this rate, from the median arrival to the last one.
fn held(look: &[&Reading], sustained_bps: f64) -> bool {
    let arrived: Vec<f64> = look
        .iter()
        .flat_map(|r| r.points.iter().map(|p| p.received_s))
        .collect();
    let later = &arrived[arrived.len() / 2..];
    let (Some(from), Some(to), Some(first)) = (later.first(), later.last(), look.first()) else {
        return false;
    };
    let bps = (later.len() - 1) as f64 * first.bits / (to - from).max(1e-9);
    (bps / sustained_bps - 1.0).abs() < MOST_OFF
}

/// Returns whether packets after the knee were queued.
fn waits(reading: &Reading, knees: &[Knee]) -> bool {
    let at = ((place(knees) * 8.0 / reading.bits) as usize).min(reading.points.len());
    let (before, after) = reading.points.split_at(at);
    let (Some(from), Some(to)) = (after.first(), after.last()) else {
        return false;
    };
    let strain = (to.delay_s() - from.delay_s()) / (to.sent_s - from.sent_s).max(1e-9);
    let middle = |part: &[_]| median(part.iter().map(crate::available::reading::Point::delay_s));
    let waited = middle(after).zip(middle(before));
    strain > LEAST_STRAIN || waited.is_some_and(|(late, soon)| late - soon > LEAST_WAIT_S)
}
