//! Does each long train begin faster than it goes on, when it had a rest?
//!
//! A bucket of some ten to some hundred packets is empty before a bin of the long look is full, and
//! lasts longer than a burst. The look's first train shows where it may have run dry; shorter trains
//! at the same rate, with a rest before every second one, show whether it does so each time.
//!
//! Source: the same knee as in bursts. Units: bytes of IP, bit/s. Error: rate 2 %, burst 5 %.
//! Wrong when: other traffic fills the link in the same rhythm.

use super::{Bucket, BucketKind, Knee, agreed, are_forgetful, described, knee, place};
use crate::available::evidence::Evidence;
use crate::available::reading::Reading;
use crate::stats::quantile::median;
use longhaul_model::report::v1::available::Purpose;

/// A train that begins so long after another has found the bucket full.
const RESTED_S: f64 = 0.05;
/// Beyond the first: whether a single train's knee is worth a second look.
const LEAST_STEP: f64 = 1.3;
/// The whole look passes at the sustained rate, within this.
const MOST_OFF: f64 = 0.1;
/// Delay grew by this share of the time after the knee, or at once by this: the excess waits.
const LEAST_STRAIN: f64 = 0.05;
const LEAST_WAIT_S: f64 = 5e-3;

/// Where the first long train slowed down for good, as if a bucket had run dry.
pub fn hint(evidence: &Evidence) -> Option<Knee> {
    let trains = in_order(evidence);
    let knee = knee::find_counted(trains.first()?)?;
    let stays = held(&trains[..look(&trains)], knee.sustained_bps);
    (stays && knee.peak_bps > LEAST_STEP * knee.sustained_bps).then_some(knee)
}

/// A bucket that runs dry in each train that had a rest, and in none without.
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

/// How many trains the long look has: those before the first rest.
fn look(trains: &[&Reading]) -> usize {
    let rests = trains
        .windows(2)
        .position(|pair| pair[1].sent_s[0] - pair[0].sent_s[1] >= RESTED_S);
    rests.map_or(trains.len(), |last| last + 1)
}

/// The trains of the look went on at this rate: from the middle of what arrived to its end.
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

/// What came after the knee had waited.
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
