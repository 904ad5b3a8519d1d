//! Detection of a token bucket on the path.
//!
//! Small buckets show on every burst: the first packets pass at the peak rate, the rest at the
//! sustained rate. Large ones show only on long trains at full rate. Those in between empty at the
//! start of the long trains, which is therefore repeated. A policer drops what a shaper would
//! queue.
//!
//! Source: docs/methods/available-bandwidth.md, after ShaperProbe (Kanuparthy and Dovrolis 2011).
//! Units: bytes of IP, bit/s. Error: rate 1 %, burst 2 %, small ones ±1 packet.
//! Wrong when: cross traffic starts once and continues.

mod again;
mod knee;
mod long;
mod policed;

use super::evidence::Evidence;
use super::reading::Reading;
use crate::stats::quantile::{median, quantile, sorted};
use knee::Knee;
use longhaul_model::report::v1::available::{Bucket, BucketKind, Purpose, Train};

pub use again::{again, hint};
pub use long::long;
pub use policed::policed;

/// The minimum number of bursts with the same knee.
const LEAST_KNEES: usize = 3;
/// Two knees agree if they differ by no more than this ratio or one packet.
const AGREE_RATIO: f64 = 0.25;
/// The minimum half-width of the burst's interval, as a ratio; it is also at least one packet.
const BURST_ERROR: f64 = 0.03;
/// Trains of this many times the knee's position must show it.
const LONG_ENOUGH: f64 = 1.5;
/// The maximum share of bursts without rest that show the knee: an empty bucket shows none.
const MOST_FORGETFUL: f64 = 0.5;
/// The rest before a train after which the bucket counts as full again.
const RESTED_S: f64 = 0.01;
/// The minimum gap that ends the first round of long trains.
const LOOK_ENDS_NS: u64 = 500_000_000;

/// Returns whether most bursts after a rest have a knee at the same position.
pub fn suspected(evidence: &Evidence) -> bool {
    agreed(&rested(evidence), knee::find).is_some()
}

/// Finds a bucket that empties within a burst.
pub fn small(evidence: &Evidence) -> Option<Bucket> {
    let knees = agreed(&rested(evidence), knee::find)?;
    let late = straight_after(evidence);
    if are_forgetful(&late, &knees, knee::find) {
        return None;
    }
    let confidence_ratio = if late.is_empty() { 0.7 } else { 0.95 };
    described(&knees, BucketKind::Shaper, confidence_ratio)
}

/// Returns whether trains without rest show the knee too. Then it is not from a bucket.
fn are_forgetful(late: &[&Reading], knees: &[Knee], find: fn(&Reading) -> Option<Knee>) -> bool {
    let same = |r: &&&Reading| find(r).is_some_and(|k| near(&k, knees));
    late.iter().filter(same).count() as f64 > MOST_FORGETFUL * late.len() as f64
}

/// Summarises the knees: their medians and their spread.
fn described(knees: &[Knee], kind: BucketKind, confidence_ratio: f64) -> Option<Bucket> {
    let of = |value: fn(&Knee) -> f64| median(knees.iter().map(value));
    let (peak, sustained, burst) = (
        of(|k| k.peak_bps)?,
        of(|k| k.sustained_bps)?,
        of(|k| k.burst_bytes)?,
    );
    let rates = sorted(knees.iter().map(|k| k.sustained_bps));
    let sizes = sorted(knees.iter().map(|k| k.burst_bytes));
    let packet = knees.iter().map(|k| k.packet_bytes).fold(0.0, f64::max);
    let least = packet.max(BURST_ERROR * burst);
    let span = |values: &[f64]| Some((quantile(values, 0.1)?, quantile(values, 0.9)?));
    let (rate_span, size_span) = (span(&rates)?, span(&sizes)?);
    Some(Bucket {
        kind,
        peak_bps: peak as u64,
        sustained_bps: sustained as u64,
        sustained_interval_bps: Some([
            (rate_span.0.min(0.98 * sustained)) as u64,
            (rate_span.1.max(1.02 * sustained)) as u64,
        ]),
        burst_bytes: burst as u64,
        burst_interval_bytes: Some([
            size_span.0.min(burst - least).max(0.0) as u64,
            size_span.1.max(burst + least) as u64,
        ]),
        confidence_ratio,
    })
}

/// Returns the bursts that found the bucket full.
fn rested(evidence: &Evidence) -> Vec<&Reading> {
    with_rest(evidence)
        .into_iter()
        .filter(|(_, rest)| *rest >= RESTED_S)
        .map(|(r, _)| r)
        .collect()
}

fn straight_after(evidence: &Evidence) -> Vec<&Reading> {
    with_rest(evidence)
        .into_iter()
        .filter(|(_, rest)| *rest < RESTED_S / 2.0)
        .map(|(r, _)| r)
        .collect()
}

/// Returns each burst with the time since the end of the previous train.
fn with_rest(evidence: &Evidence) -> Vec<(&Reading, f64)> {
    let mut trains: Vec<&Reading> = evidence.readings.iter().collect();
    trains.sort_by(|a, b| a.sent_s[0].total_cmp(&b.sent_s[0]));
    let mut busy_until = f64::MIN;
    let mut found = Vec::new();
    for train in trains {
        if train.purpose == Purpose::Burst && train.lost == 0 {
            found.push((train, train.sent_s[0] - busy_until));
        }
        if train.purpose != Purpose::Idle {
            busy_until = busy_until.max(train.sent_s[0] + train.received_span_s());
        }
    }
    found
}

/// Returns the knees if most of the trains that are long enough show one at the same position.
fn agreed(trains: &[&Reading], find: fn(&Reading) -> Option<Knee>) -> Option<Vec<Knee>> {
    let knees: Vec<Knee> = trains.iter().filter_map(|r| find(r)).collect();
    let place = median(knees.iter().map(|k| k.at_bytes))?;
    let long_enough = trains
        .iter()
        .filter(|r| r.packets as f64 * r.bits / 8.0 > LONG_ENOUGH * place)
        .count();
    let same: Vec<Knee> = knees.into_iter().filter(|k| is_at(k, place)).collect();
    (same.len() >= LEAST_KNEES && 4 * same.len() >= 3 * long_enough).then_some(same)
}

fn near(knee: &Knee, others: &[Knee]) -> bool {
    is_at(knee, place(others))
}

fn is_at(knee: &Knee, place: f64) -> bool {
    (knee.at_bytes - place).abs() <= (AGREE_RATIO * place).max(1.5 * knee.packet_bytes)
}

/// The median position of the knees, in bytes.
fn place(knees: &[Knee]) -> f64 {
    median(knees.iter().map(|k| k.at_bytes)).unwrap_or(0.0)
}

/// Returns the first round of long trains in order, without the repetitions.
fn long_trains(trains: &[Train]) -> Vec<&Train> {
    let mut found: Vec<&Train> = trains
        .iter()
        .filter(|t| t.purpose == Purpose::Bucket)
        .collect();
    found.sort_by_key(|t| t.sent_at_ns);
    let ended_ns = |t: &Train| t.sent_at_ns + t.sent_ns.last().copied().unwrap_or(0);
    let rested = |pair: &[&Train]| pair[1].sent_at_ns > ended_ns(pair[0]) + LOOK_ENDS_NS;
    let look = found.windows(2).position(rested).map(|last| last + 1);
    found.truncate(look.unwrap_or(found.len()));
    found
}
