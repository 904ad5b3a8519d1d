//! How fast does the narrow link pass packets that follow each other without a gap?
//!
//! Short stretches of the bursts and of the fast trains: the quickest of them met no other traffic.
//! A stretch is long beside the error of its times, in time and not in packets. It begins and ends
//! with packets that were stamped on time: a packet behind the line of those after it was stamped
//! late by a busy host, whereas other traffic holds up all that follow. Where stamps are noisy the
//! rate is that of longer stretches, as long as nearly all trains pass these as quickly.
//!
//! Source: dispersion of trains (Dovrolis, Ramanathan and Moore 2001) with the least-delayed one
//! (CapProbe, SIGCOMM 2004). Units: bit/s of IP. Error: 1 to 6 %; too low where the sender is not much
//! faster than a loaded link, which the sweep corrects.
//! Wrong when: a later link bunches packets, or the sender is slower than the link.

use super::reading::{Point, Reading};
use super::resolution;
use crate::stats::quantile::{median, quantile, sorted};
use longhaul_model::report::v1::available::Purpose;

/// Stretches last this many batches …
const STRETCH_BATCHES: f64 = 12.0;
/// … and at least this long: beside it a stamp's own error is small.
const LEAST_STRETCH_S: f64 = 150e-6;
const LEAST_STRETCH_PACKETS: usize = 4;
/// Stretches are so many times as long as single stamps are wrong by: the quickest of a dozen takes
/// the luck of two stamps, which is then 2 to 3 % of it.
const STRETCH_NOISES: f64 = 100.0;
/// By so many times what single stamps are wrong by may luck shorten the quickest stretch.
const LUCK: f64 = 4.0;
/// Stretches are looked at that are 2, 4, … so many doublings as long.
const MOST_DOUBLINGS: u32 = 6;
/// Trains slower than this one of all may have met other traffic.
const SLOWEST: f64 = 0.25;
/// Fewer trains that are long enough say nothing.
const LEAST_LONG: usize = 3;
/// By so much the quickest stretch of a train may lie above those of the bursts.
const ABOVE_BURSTS: f64 = 1.03;
/// What a stamp is wrong by on an idle host.
const STAMP_S: f64 = 1e-6;
/// Rounds in which the line and what is on time are found from each other.
const ROUNDS: usize = 4;
/// Only between packets further apart than this can late ones be told from the stamps' own error …
const SLOW_S: f64 = 20.0 * STAMP_S;
/// … and where the receiver batches, from the wait in a batch.
const SLOW_BATCHED_S: f64 = 30.0 * STAMP_S;
/// Standard deviations by which neighbouring gaps must differ in sign more often than by chance.
const SIGNIFICANT: f64 = 2.0;
/// … and by this share: trains after which the queue ran dry for moments show a little of it too.
const LEAST_APART: f64 = 0.15;
/// From a middle distance to a standard deviation.
const SIGMAS: f64 = 1.4826;
/// Gaps below which the error of stamps is not estimated.
const LEAST_GAPS: usize = 12;
/// The quickest stretch of one train may be luck of the stamps: this one of all trains' quickest.
const QUICKEST: f64 = 0.75;
/// Of a stamp's greatest error, this part is left in the median of many trains.
const STAMP_PART: f64 = 0.3;
/// Trains sent faster than this beside the dispersion rate are as good as bursts.
const FAST_RATIO: f64 = 1.1;
/// A burst that leaves within this share of the time in which it arrives is dense.
const DENSE_RATIO: f64 = 0.25;
/// A burst that grew no longer than this on its way met nothing slower than its sender.
const UNSTRAINED: f64 = 0.03;

/// What the bursts say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dispersion {
    pub capacity_bps: f64,
    /// Relative standard error of the capacity from the times alone.
    pub error_ratio: f64,
    /// How far the quickest stretches of the trains lie apart: by so much all may be too slow.
    pub spread_ratio: f64,
    /// Middle rate of the bursts: between available bandwidth and capacity.
    pub rate_bps: f64,
    /// What single stamps are usually wrong by; 0 where it cannot be told from nothing.
    pub noise_s: f64,
    /// Longest time between batches.
    pub batching_s: f64,
    /// Median received span of the bursts.
    pub span_s: f64,
    pub bursts: usize,
    /// The bursts arrived as fast as they left.
    pub unstrained: bool,
    /// The bursts came to the link too densely for much other traffic to get between their packets.
    pub dense: bool,
}

/// `None` when no burst can be read.
pub fn dispersion(readings: &[Reading]) -> Option<Dispersion> {
    let bursts: Vec<&Reading> = readings.iter().filter(|r| is_burst(r)).collect();
    let rate_bps = median(bursts.iter().filter_map(|r| r.received_bps()))?;
    let batching_s = batching_s(readings);
    let span_s = median(bursts.iter().map(|r| r.received_span_s()))?;
    let fast = readings
        .iter()
        .filter(|r| r.purpose == Purpose::Sweep && !r.is_lossy())
        .filter(|r| r.sent_bps().is_some_and(|bps| bps > FAST_RATIO * rate_bps));
    let fast: Vec<&Reading> = fast.collect();
    let gap_s = median(bursts.iter().map(|r| r.bits / rate_bps))?;
    let noise_s = stamp_noise_s(bursts.iter().chain(&fast));
    let stretch_s = (STRETCH_BATCHES * batching_s)
        .max(STRETCH_NOISES * noise_s)
        .max(LEAST_STRETCH_S);
    // A packet that ends a batch has waited one gap at most.
    let tolerance_s = if batching_s > 0.0 {
        gap_s.max(noise_s)
    } else {
        noise_s.max(STAMP_S)
    };
    let is_slow = gap_s
        > if batching_s > 0.0 {
            SLOW_BATCHED_S
        } else {
            SLOW_S
        };
    let tolerance_s = is_slow.then_some(tolerance_s);
    let quickest = quickest_on_time(&bursts, &fast, stretch_s, tolerance_s);
    let of_short = quantile(&quickest, QUICKEST)?.max(rate_bps);
    let capacity_bps =
        longest_as_quick(&fast, of_short, (stretch_s, noise_s), tolerance_s).max(rate_bps);
    let stamp_s = if batching_s > 0.0 {
        gap_s.min(batching_s)
    } else {
        STAMP_S.max(noise_s / STAMP_PART)
    };
    Some(Dispersion {
        capacity_bps,
        spread_ratio: spread(&quickest),
        error_ratio: (STAMP_PART * stamp_s / stretch_s.min(span_s).max(1e-9)).min(1.0),
        rate_bps,
        noise_s,
        batching_s,
        span_s,
        bursts: bursts.len(),
        unstrained: is_unstrained(&bursts),
        dense: 2 * bursts.iter().filter(|r| is_dense(r)).count() > bursts.len(),
    })
}

impl Dispersion {
    /// Bursts that last so long are long beside the receiver's batches and the error of its stamps.
    pub fn needed_s(&self) -> f64 {
        resolution::least_span_s(self.batching_s).max(STRETCH_NOISES * self.noise_s)
    }
}

/// No train passes quicker than bursts, which come to the link as densely as can be: what seems to is
/// the catching up of a busy host. One burst may itself be caught up; two are not.
fn ceiling_bps(of_bursts: &[f64]) -> f64 {
    let second = of_bursts.len().saturating_sub(2);
    of_bursts
        .get(second)
        .map_or(f64::INFINITY, |bps| ABOVE_BURSTS * bps)
}

/// The quickest stretch of each burst and of each fast train, sorted.
fn quickest_of_all(
    bursts: &[&Reading],
    fast: &[&Reading],
    of: impl Fn(&Reading) -> Option<f64>,
) -> Vec<f64> {
    let of_bursts = sorted(bursts.iter().filter_map(|r| of(r)));
    let ceiling = ceiling_bps(&of_bursts);
    let of_trains = fast.iter().filter_map(|r| of(r));
    let all = of_bursts.iter().copied().chain(of_trains);
    sorted(all.map(|bps| bps.min(ceiling)))
}

/// The same between packets that are on time. Which these are shows beside the line of the link, which
/// the quickest stretches give; late packets make it too steep at first.
fn quickest_on_time(
    bursts: &[&Reading],
    fast: &[&Reading],
    stretch_s: f64,
    tolerance_s: Option<f64>,
) -> Vec<f64> {
    let mut found = quickest_of_all(bursts, fast, |r| quickest(r, &r.kept, stretch_s));
    let Some(tolerance_s) = tolerance_s else {
        return found;
    };
    for _ in 0..ROUNDS {
        let Some(bps) = quantile(&found, QUICKEST) else {
            break;
        };
        let next = quickest_of_all(bursts, fast, |r| {
            let points = on_time(&r.kept, r.bits / bps, tolerance_s);
            quickest(r, &points, stretch_s)
        });
        if next.is_empty() {
            break;
        }
        found = next;
    }
    found
}

/// The quickest of stretches of one length owes something to the luck of its two stamps, the less the
/// longer they are; but the longer they are, the more of other traffic is in them. So the rate is that
/// of the longest stretches that nearly all trains pass no slower than such luck explains.
fn longest_as_quick(
    fast: &[&Reading],
    of_short_bps: f64,
    (stretch_s, noise_s): (f64, f64),
    tolerance_s: Option<f64>,
) -> f64 {
    if noise_s <= 0.0 {
        return of_short_bps;
    }
    let without_luck = |bps: f64, length_s: f64| bps * (1.0 - LUCK * noise_s / length_s);
    let mut found_bps = of_short_bps;
    let mut least_bps = without_luck(of_short_bps, stretch_s);
    for doublings in 1..=MOST_DOUBLINGS {
        let length_s = stretch_s * f64::from(1 << doublings);
        let long = fast.iter().filter(|r| r.received_span_s() > length_s);
        let long: Vec<&Reading> = long.copied().collect();
        let rates = quickest_on_time(&[], &long, length_s, tolerance_s);
        let of_slow = quantile(&rates, SLOWEST).filter(|_| rates.len() >= LEAST_LONG);
        if of_slow.is_none_or(|bps| bps < least_bps) {
            break;
        }
        let Some(bps) = quantile(&rates, QUICKEST) else {
            break;
        };
        found_bps = bps;
        least_bps = least_bps.max(without_luck(bps, length_s));
    }
    found_bps
}

/// Packets that none after them undercuts, beside a line of `gap_s` for each packet.
fn on_time(points: &[Point], gap_s: f64, tolerance_s: f64) -> Vec<Point> {
    let mut least = f64::INFINITY;
    let mut found: Vec<Point> = points
        .iter()
        .rev()
        .filter(|point| {
            let behind_s = point.received_s - point.index as f64 * gap_s;
            let is_on_time = behind_s <= least + tolerance_s;
            least = least.min(behind_s);
            is_on_time
        })
        .copied()
        .collect();
    found.reverse();
    found
}

/// A late stamp makes one gap longer and the next one shorter, which nothing on the path does: then
/// neighbouring gaps lie on different sides of the middle one more often than by chance. By how much
/// more says which part of their distance from it is the stamps'.
fn stamp_noise_s<'r>(trains: impl Iterator<Item = &'r &'r Reading>) -> f64 {
    let (mut apart, mut together) = (0f64, 0f64);
    let mut distances = Vec::new();
    for train in trains {
        let steps = || {
            train.kept.windows(2).map(|w| {
                (
                    w[1].received_s - w[0].received_s,
                    (w[1].index - w[0].index).max(1) as f64,
                )
            })
        };
        let Some(middle) = median(steps().map(|(gap_s, packets)| gap_s / packets)) else {
            continue;
        };
        let off: Vec<f64> = steps()
            .map(|(gap_s, packets)| gap_s - packets * middle)
            .collect();
        for pair in off.windows(2).filter(|w| w[0] != 0.0 && w[1] != 0.0) {
            if (pair[0] > 0.0) == (pair[1] > 0.0) {
                together += 1.0;
            } else {
                apart += 1.0;
            }
        }
        distances.extend(off.iter().map(|gap| gap.abs()));
    }
    let signs = apart + together;
    let is_noise = apart - together > (SIGNIFICANT * signs.sqrt()).max(LEAST_APART * signs);
    if distances.len() < LEAST_GAPS || !is_noise {
        return 0.0;
    }
    let opposed = ((apart - together) / signs * std::f64::consts::FRAC_PI_2).sin();
    median(distances).map_or(0.0, |gap_s| SIGMAS * gap_s * opposed.sqrt())
}

/// Where many trains have the same quickest rate, it is that of the link.
fn spread(quickest: &[f64]) -> f64 {
    let high = quantile(quickest, 0.9).unwrap_or(0.0);
    let low = quantile(quickest, 0.4).unwrap_or(0.0);
    if high > 0.0 {
        1.5 * (high - low) / high
    } else {
        1.0
    }
}

fn is_burst(reading: &Reading) -> bool {
    reading.purpose == Purpose::Burst && !reading.is_lossy() && reading.kept.len() >= 3
}

/// Bursts tell the batches. Two packets that came late together in a burst or two are none.
pub fn batching_s(readings: &[Reading]) -> f64 {
    let bursts = || {
        let all = readings.iter().filter(|r| r.purpose == Purpose::Burst);
        all.filter(|r| !r.kept.is_empty())
    };
    let batches: Vec<f64> = bursts().filter_map(|r| r.batching_s).collect();
    if 2 * batches.len() < bursts().count() {
        return 0.0;
    }
    batches.into_iter().fold(0.0, f64::max)
}

/// The quickest stretch of at least this length between two of the points.
fn quickest(reading: &Reading, points: &[Point], stretch_s: f64) -> Option<f64> {
    let first = points.first()?;
    let last = points.last()?;
    let whole = last.received_s - first.received_s;
    let least_s = stretch_s.min(whole * 0.999);
    let mut best: f64 = 0.0;
    let mut to = 0;
    for from in points {
        while to < points.len()
            && (points[to].received_s - from.received_s < least_s
                || points[to].index - from.index < LEAST_STRETCH_PACKETS)
        {
            to += 1;
        }
        let Some(end) = points.get(to) else {
            break;
        };
        let count = (end.index - from.index) as f64;
        best = best.max(reading.bits * count / (end.received_s - from.received_s));
    }
    (best > 0.0).then_some(best)
}

fn is_dense(burst: &Reading) -> bool {
    burst.sent_span_s() < DENSE_RATIO * burst.received_span_s()
}

fn is_unstrained(bursts: &[&Reading]) -> bool {
    let strains = bursts.iter().filter_map(|r| {
        let (sent, received) = (r.sent_bps()?, r.received_bps()?);
        Some(sent / received - 1.0)
    });
    median(strains).is_some_and(|strain| strain < UNSTRAINED)
}
