//! The capacity of the narrow link: the rate at which it passes back-to-back packets.
//!
//! Uses short stretches of the bursts and fast trains: the fastest of them met no cross traffic. The
//! first packets of a train do not count, because token buckets pass them at once. A stretch, in time
//! and not in packets, is long compared with the error of its times. It begins and ends with packets
//! that were timestamped on time: a packet above the line of those after it was stamped late by a busy
//! host, whereas cross traffic delays all later packets. If timestamps are noisy, the rate is that of
//! longer stretches, if nearly all trains pass these as fast.
//!
//! Source: dispersion of trains (Dovrolis, Ramanathan and Moore 2001) with the least-delayed one
//! (CapProbe, SIGCOMM 2004). Units: bit/s of IP. Error: 1 to 6 %; too low if the sender is not much
//! faster than a loaded link, which the sweep corrects.
//! Wrong when: a later link bunches packets, or the sender is slower than the link.

use super::train_reading::{ReceivedPacket, TrainReading};
use crate::stats::{median, quantile, sort_finite};
use longhaul_model::report::v1::available::TrainPurpose;

/// The parameters of the capacity estimate.
struct CapacityTuning;

impl CapacityTuning {
    /// The minimum length of a stretch in receiver batches …
    const STRETCH_BATCHES: f64 = 12.0;
    /// … and in time, compared with which the error of a timestamp is small.
    const MIN_STRETCH_S: f64 = 150e-6;
    const MIN_STRETCH_PACKETS: usize = 4;
    /// The minimum length of a stretch in timestamp errors: the fastest of a dozen benefits from the
    /// errors of two timestamps, which is then 2 to 3 % of it.
    const STRETCH_NOISES: f64 = 100.0;
    /// The number of timestamp errors by which chance may shorten the fastest stretch.
    const CHANCE_ERRORS: f64 = 4.0;
    /// The number of times that the stretch length is doubled.
    const MAX_DOUBLINGS: u32 = 6;
    /// The quantile for the slowest of the trains' rates; slower ones may have met cross traffic.
    const SLOWEST_QUANTILE: f64 = 0.25;
    /// The minimum number of trains that are long enough.
    const MIN_LONG_TRAINS: usize = 3;
    /// The maximum ratio of a train's fastest stretch to those of the bursts.
    const ABOVE_BURSTS: f64 = 1.03;
    /// The number of iterations that fit the line and select the packets on time.
    const ROUNDS: usize = 4;
    /// The number of standard deviations by which sign changes of gaps must exceed chance …
    const SIGNIFICANT: f64 = 2.0;
    /// … and the minimum share: trains whose queue ran empty briefly show a few as well.
    const MIN_SIGN_CHANGE_RATIO: f64 = 0.15;
    /// Converts a median distance to a standard deviation.
    const SIGMAS: f64 = 1.4826;
    /// The minimum number of gaps needed to estimate the error of timestamps.
    const MIN_GAPS: usize = 12;
    /// The minimum credit of a token bucket in packets; a smaller one hides little.
    const MIN_CREDIT_PACKETS: f64 = 0.6;
    /// The quantile over the trains' fastest stretches; the fastest one may be due to timestamp errors.
    const FASTEST_QUANTILE: f64 = 0.75;
    /// The share of a timestamp's maximum error that remains in the median of many trains.
    const STAMP_PART: f64 = 0.3;
    /// Trains sent faster than this, relative to the dispersion rate, count as bursts.
    const FAST_RATIO: f64 = 1.1;
    /// The quantiles of the gaps that must agree on the rate of pairs, the maximum difference, and the
    /// minimum ratio of that rate to that of stretches.
    const FAST_PAIRS: [f64; 2] = [0.015, 0.045];
    const PAIR_TOLERANCE: f64 = 0.03;
    const MIN_PAIR_RATIO: f64 = 1.1;
    /// Bursts shorter than this part of the longest one do not count.
    const SHORT_BURST_RATIO: f64 = 0.1;
    /// The maximum number of trains of which the fastest one counts.
    const FEW_TRAINS: usize = 2;
    /// A burst is dense if its sending time is less than this share of its arrival time.
    const DENSE_RATIO: f64 = 0.25;
    /// A burst whose duration grew by less than this on the path met no link slower than its sender.
    const UNSTRAINED: f64 = 0.03;
}

/// The error of a timestamp on an idle host.
const STAMP_S: f64 = 1e-6;
/// The minimum gap at which late packets can be distinguished from timestamp errors …
const SLOW_S: f64 = 20.0 * STAMP_S;
/// … and, if the receiver batches, from the wait in a batch.
const SLOW_BATCHED_S: f64 = 30.0 * STAMP_S;

/// The results of the bursts and fast trains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainDispersion {
    pub capacity_bps: f64,
    /// The relative standard error of the capacity from the times alone.
    pub error_ratio: f64,
    /// The spread of the trains' fastest stretches: all of them may be too slow by this ratio.
    pub spread_ratio: f64,
    /// The rate of neighbouring packets if it is well above `capacity_bps`: a link that serves flows in
    /// turn passes a burst more slowly, but not all pairs of its packets.
    pub pair_bps: Option<f64>,
    /// The median rate of the bursts: between available bandwidth and capacity.
    pub rate_bps: f64,
    /// The typical error of a timestamp; 0 if not distinguishable from none.
    pub noise_s: f64,
    /// The time by which the first packets of a burst come early, because a token bucket of a few
    /// packets lets them pass at once; 0 without one.
    pub credit_s: f64,
    /// The same of a train that met hardly any cross traffic: small probes do not see queues up to
    /// this length, because the bucket lets them pass.
    pub hidden_queue_s: f64,
    /// The maximum time between batches.
    pub batching_s: f64,
    /// Set if the bursts arrived as fast as they left.
    pub unstrained: bool,
    /// Set if the bursts were too dense for much cross traffic to get between their packets.
    pub dense: bool,
}

/// Estimates the capacity; `None` if no burst is usable.
pub fn estimate_dispersion(readings: &[TrainReading]) -> Option<TrainDispersion> {
    let bursts = list_usable_bursts(readings);
    let rate_bps = median(bursts.iter().filter_map(|r| r.received_bps()))?;
    let batching_s = find_batching_s(readings);
    let span_s = median(bursts.iter().map(|r| r.received_span_s()))?;
    let fast = readings
        .iter()
        .filter(|r| r.purpose == TrainPurpose::Sweep && !r.is_lossy())
        .filter(|r| r.sent_bps().is_some_and(|bps| bps > CapacityTuning::FAST_RATIO * rate_bps));
    let fast: Vec<&TrainReading> = fast.collect();
    let gap_s = median(bursts.iter().map(|r| r.bits / rate_bps))?;
    let noise_s = estimate_stamp_noise_s(bursts.iter().chain(&fast));
    let stretch_s = (CapacityTuning::STRETCH_BATCHES * batching_s)
        .max(CapacityTuning::STRETCH_NOISES * noise_s)
        .max(CapacityTuning::MIN_STRETCH_S);
    // A packet that ends a batch has waited at most one gap.
    let tolerance_s = if batching_s > 0.0 { gap_s.max(noise_s) } else { noise_s.max(STAMP_S) };
    let is_slow = gap_s > if batching_s > 0.0 { SLOW_BATCHED_S } else { SLOW_S };
    let tolerance_s = is_slow.then_some(tolerance_s);
    let quickest = list_fastest_on_time(&bursts, &fast, stretch_s, tolerance_s);
    let of_short = find_fast_rate(&quickest)?.max(rate_bps);
    let capacity_bps =
        find_longest_fast_stretch(&fast, of_short, stretch_s, noise_s, tolerance_s).max(rate_bps);
    let stamp_s = if batching_s > 0.0 {
        gap_s.min(batching_s)
    } else {
        STAMP_S.max(noise_s / CapacityTuning::STAMP_PART)
    };
    let credits_s =
        if batching_s > 0.0 { Vec::new() } else { list_credits_s(&bursts, &[], capacity_bps) };
    let packet_s = bursts[0].bits / capacity_bps;
    // One late timestamp must not look like a bucket.
    let of_all_s = list_credits_s(&bursts, &fast, capacity_bps);
    let hidden_queue_s = of_all_s.iter().rev().nth(1).copied().filter(|_| batching_s <= 0.0);
    let is_hidden = |credit_s: &f64| *credit_s > CapacityTuning::MIN_CREDIT_PACKETS * packet_s;
    Some(TrainDispersion {
        capacity_bps,
        pair_bps: find_pair_rate(&bursts, batching_s)
            .filter(|bps| *bps > CapacityTuning::MIN_PAIR_RATIO * capacity_bps),
        spread_ratio: compute_rate_spread(&quickest),
        error_ratio: (CapacityTuning::STAMP_PART * stamp_s / stretch_s.min(span_s).max(1e-9))
            .min(1.0),
        rate_bps,
        noise_s,
        credit_s: quantile(&credits_s, 0.5).unwrap_or(0.0).max(0.0),
        hidden_queue_s: hidden_queue_s.filter(is_hidden).unwrap_or(0.0),
        batching_s,
        unstrained: is_unstrained(&bursts),
        dense: 2 * bursts.iter().filter(|r| is_dense(r)).count() > bursts.len(),
    })
}

impl TrainDispersion {
    /// Returns the minimum duration of a burst, given receiver batches and timestamp errors.
    pub fn min_burst_s(&self) -> f64 {
        super::min_burst_span_s(self.batching_s).max(CapacityTuning::STRETCH_NOISES * self.noise_s)
    }
}

/// Returns by how much the first packets of each burst or fast train are ahead of the line of the
/// rest, sorted. Cross traffic makes this less.
fn list_credits_s(bursts: &[&TrainReading], fast: &[&TrainReading], capacity_bps: f64) -> Vec<f64> {
    let credits = bursts.iter().chain(fast).filter_map(|burst| {
        let gap_s = burst.bits / capacity_bps;
        let first = burst.kept.first().filter(|first| first.index == 0)?;
        let settled = burst.settled().first()?;
        Some(settled.index as f64 * gap_s - (settled.received_s - first.received_s))
    });
    sort_finite(credits)
}

/// Returns the fastest stretch of each burst and of each fast train, sorted. No train passes faster
/// than bursts, unless its timestamps catch up on a busy host. This may affect one burst, but not
/// two.
fn list_fastest_stretches(
    bursts: &[&TrainReading],
    fast: &[&TrainReading],
    of: impl Fn(&TrainReading) -> Option<f64>,
) -> Vec<f64> {
    let of_bursts = sort_finite(bursts.iter().filter_map(|r| of(r)));
    let is_enough = of_bursts.len() > CapacityTuning::FEW_TRAINS;
    let second = of_bursts.iter().rev().nth(1).filter(|_| is_enough);
    let ceiling = second.map_or(f64::INFINITY, |bps| CapacityTuning::ABOVE_BURSTS * bps);
    let of_trains = fast.iter().filter_map(|r| of(r));
    let all = of_bursts.iter().copied().chain(of_trains);
    sort_finite(all.map(|bps| bps.min(ceiling)))
}

/// Returns the rate of the fastest neighbouring packets, if several gaps of bursts agree on it.
fn find_pair_rate(bursts: &[&TrainReading], batching_s: f64) -> Option<f64> {
    let gaps = bursts.iter().flat_map(|burst| {
        let pairs = burst.settled().windows(2).filter(|pair| pair[1].index == pair[0].index + 1);
        pairs.map(|pair| (pair[1].received_s - pair[0].received_s) / burst.bits)
    });
    let gaps = sort_finite(gaps);
    let [fastest, next] = CapacityTuning::FAST_PAIRS.map(|part| quantile(&gaps, part));
    let (fastest, next) = (fastest?, next?);
    let agree = next - fastest < CapacityTuning::PAIR_TOLERANCE * next;
    let is_enough = gaps.len() >= CapacityTuning::MIN_GAPS;
    (batching_s <= 0.0 && is_enough && agree && next > 0.0).then_some(1.0 / next)
}

/// Returns the rate of the link: the fastest of two stretches, or the upper quartile of more.
fn find_fast_rate(rates: &[f64]) -> Option<f64> {
    let is_few = rates.len() <= CapacityTuning::FEW_TRAINS;
    quantile(rates, if is_few { 1.0 } else { CapacityTuning::FASTEST_QUANTILE })
}

/// Returns the fastest stretches between packets that are on time. These are determined relative to
/// the link's line, which the fastest stretches give; late packets make it too steep at first.
fn list_fastest_on_time(
    bursts: &[&TrainReading],
    fast: &[&TrainReading],
    stretch_s: f64,
    tolerance_s: Option<f64>,
) -> Vec<f64> {
    let mut found =
        list_fastest_stretches(bursts, fast, |r| find_fastest_stretch(r, r.settled(), stretch_s));
    let Some(tolerance_s) = tolerance_s else {
        return found;
    };
    for _ in 0..CapacityTuning::ROUNDS {
        let Some(bps) = find_fast_rate(&found) else {
            break;
        };
        let next = list_fastest_stretches(bursts, fast, |r| {
            let points = select_on_time_packets(r.settled(), r.bits / bps, tolerance_s);
            find_fastest_stretch(r, &points, stretch_s)
        });
        if next.is_empty() {
            break;
        }
        found = next;
    }
    found
}

/// Returns the rate of the longest stretches that are as fast as short ones. The fastest of several
/// stretches benefits from the errors of its two timestamps, less so the longer it is; but longer
/// stretches contain more cross traffic. The result is that of the longest stretches which nearly
/// all trains pass no slower than such errors explain.
fn find_longest_fast_stretch(
    fast: &[&TrainReading],
    of_short_bps: f64,
    stretch_s: f64,
    noise_s: f64,
    tolerance_s: Option<f64>,
) -> f64 {
    if noise_s <= 0.0 {
        return of_short_bps;
    }
    let without_luck =
        |bps: f64, length_s: f64| bps * (1.0 - CapacityTuning::CHANCE_ERRORS * noise_s / length_s);
    let mut found_bps = of_short_bps;
    let mut least_bps = without_luck(of_short_bps, stretch_s);
    for doublings in 1..=CapacityTuning::MAX_DOUBLINGS {
        let length_s = stretch_s * f64::from(1 << doublings);
        let long = fast.iter().filter(|r| r.received_span_s() > length_s);
        let long: Vec<&TrainReading> = long.copied().collect();
        let rates = list_fastest_on_time(&[], &long, length_s, tolerance_s);
        let of_slow = quantile(&rates, CapacityTuning::SLOWEST_QUANTILE)
            .filter(|_| rates.len() >= CapacityTuning::MIN_LONG_TRAINS);
        if of_slow.is_none_or(|bps| bps < least_bps) {
            break;
        }
        let Some(bps) = quantile(&rates, CapacityTuning::FASTEST_QUANTILE) else {
            break;
        };
        found_bps = bps;
        least_bps = least_bps.max(without_luck(bps, length_s));
    }
    found_bps
}

/// Returns the packets that no later packet undercuts, relative to a line of `gap_s` per packet.
fn select_on_time_packets(
    points: &[ReceivedPacket],
    gap_s: f64,
    tolerance_s: f64,
) -> Vec<ReceivedPacket> {
    let mut least = f64::INFINITY;
    let mut found: Vec<ReceivedPacket> = points
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

/// Returns the typical error of timestamps. A late timestamp makes one gap longer and the next one
/// shorter, which nothing on the path does: neighbouring gaps are then on different sides of the
/// median more often than by chance. The excess gives the timestamps' share of the deviation.
fn estimate_stamp_noise_s<'r>(trains: impl Iterator<Item = &'r &'r TrainReading>) -> f64 {
    let (mut apart, mut together) = (0f64, 0f64);
    let mut distances = Vec::new();
    for train in trains {
        let steps = || {
            train.kept.windows(2).map(|w| {
                (w[1].received_s - w[0].received_s, (w[1].index - w[0].index).max(1) as f64)
            })
        };
        let Some(middle) = median(steps().map(|(gap_s, packets)| gap_s / packets)) else {
            continue;
        };
        let off: Vec<f64> = steps().map(|(gap_s, packets)| gap_s - packets * middle).collect();
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
    let is_noise = apart - together
        > (CapacityTuning::SIGNIFICANT * signs.sqrt())
            .max(CapacityTuning::MIN_SIGN_CHANGE_RATIO * signs);
    if distances.len() < CapacityTuning::MIN_GAPS || !is_noise {
        return 0.0;
    }
    let opposed = ((apart - together) / signs * std::f64::consts::FRAC_PI_2).sin();
    median(distances).map_or(0.0, |gap_s| CapacityTuning::SIGMAS * gap_s * opposed.sqrt())
}

/// Returns the spread of the fastest stretches; many trains with one rate show that of the link.
fn compute_rate_spread(quickest: &[f64]) -> f64 {
    let high = quantile(quickest, 0.9).unwrap_or(0.0);
    let low = quantile(quickest, 0.4).unwrap_or(0.0);
    if high > 0.0 { 1.5 * (high - low) / high } else { 1.0 }
}

/// Returns the bursts that are usable and not much shorter than the others: a token bucket may pass a
/// short one at once.
fn list_usable_bursts(readings: &[TrainReading]) -> Vec<&TrainReading> {
    let mut bursts: Vec<&TrainReading> = readings.iter().filter(|r| is_burst(r)).collect();
    let longest_s = bursts.iter().map(|r| r.received_span_s()).fold(0.0, f64::max);
    bursts.retain(|r| r.received_span_s() >= CapacityTuning::SHORT_BURST_RATIO * longest_s);
    bursts
}

fn is_burst(reading: &TrainReading) -> bool {
    reading.purpose == TrainPurpose::Burst && !reading.is_lossy() && reading.kept.len() >= 3
}

/// Returns the batching time of the receiver, if most bursts show batches. Two packets that arrived
/// late together in one or two bursts are not a batch.
pub fn find_batching_s(readings: &[TrainReading]) -> f64 {
    let bursts = list_usable_bursts(readings);
    let batches: Vec<f64> = bursts.iter().filter_map(|r| r.batching_s).collect();
    if 2 * batches.len() < bursts.len() {
        return 0.0;
    }
    batches.into_iter().fold(0.0, f64::max)
}

/// Returns the rate of the fastest stretch of at least this length between two of the points.
fn find_fastest_stretch(
    reading: &TrainReading,
    points: &[ReceivedPacket],
    stretch_s: f64,
) -> Option<f64> {
    let first = points.first()?;
    let last = points.last()?;
    let whole = last.received_s - first.received_s;
    let least_s = stretch_s.min(whole * 0.999);
    let mut best: f64 = 0.0;
    let mut to = 0;
    for from in points {
        while to < points.len()
            && (points[to].received_s - from.received_s < least_s
                || points[to].index - from.index < CapacityTuning::MIN_STRETCH_PACKETS)
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

fn is_dense(burst: &TrainReading) -> bool {
    burst.sent_span_s() < CapacityTuning::DENSE_RATIO * burst.received_span_s()
}

fn is_unstrained(bursts: &[&TrainReading]) -> bool {
    let strains = bursts.iter().filter_map(|r| {
        let (sent, received) = (r.sent_bps()?, r.received_bps()?);
        Some(sent / received - 1.0)
    });
    median(strains).is_some_and(|strain| strain < CapacityTuning::UNSTRAINED)
}
