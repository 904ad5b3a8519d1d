//! How fast does the narrow link pass packets that follow each other without a gap?
//!
//! Short stretches of the bursts and of the fast trains: the quickest of them met no other traffic.
//! A stretch is long beside the error of its times, in time and not in packets.
//!
//! Source: dispersion of trains (Dovrolis, Ramanathan and Moore 2001) with the least-delayed one
//! (CapProbe, SIGCOMM 2004). Units: bit/s of IP. Error: 1 to 6 %; too low where the sender is not much
//! faster than a loaded link, which the sweep corrects.
//! Wrong when: a later link bunches packets, or the sender is slower than the link.

use super::reading::{Point, Reading};
use crate::stats::quantile::{median, quantile, sorted};
use crate::stats::robust::mean_and_deviation;
use longhaul_model::report::v1::available::Purpose;

/// Stretches last this many batches …
const STRETCH_BATCHES: f64 = 12.0;
/// … and at least this long: beside it a stamp's own error is small.
const LEAST_STRETCH_S: f64 = 150e-6;
const LEAST_STRETCH_PACKETS: usize = 4;
/// Stretches are so many times as long as single stamps are wrong by: the quickest of a dozen takes
/// the luck of two stamps, which is then 2 to 3 % of it.
const STRETCH_NOISES: f64 = 100.0;
/// By so much the quickest stretch of a train may lie above those of the bursts.
const ABOVE_BURSTS: f64 = 1.03;
/// What a stamp is wrong by on an idle host.
const STAMP_S: f64 = 1e-6;
/// Standard errors by which the stamps must show that they are wrong.
const SIGNIFICANT: f64 = 2.0;
/// Gaps below which the error of stamps is not estimated.
const LEAST_GAPS: usize = 12;
/// The quickest stretch of one train may be luck of the stamps: this one of all trains' quickest.
const QUICKEST: f64 = 0.75;
/// Of a stamp's greatest error, this part is left in the median of many trains.
const STAMP_PART: f64 = 0.3;
/// Trains sent faster than this beside the dispersion rate are as good as bursts.
const FAST_RATIO: f64 = 1.1;
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
    /// Longest time between batches.
    pub batching_s: f64,
    /// Median received span of the bursts.
    pub span_s: f64,
    pub bursts: usize,
    /// The bursts arrived as fast as they left.
    pub unstrained: bool,
}

/// `None` when no burst can be read.
pub fn dispersion(readings: &[Reading]) -> Option<Dispersion> {
    let bursts: Vec<&Reading> = readings.iter().filter(|r| is_burst(r)).collect();
    let rate_bps = median(bursts.iter().filter_map(|r| r.received_bps()))?;
    let batching_s = batching_s(readings);
    let span_s = median(bursts.iter().map(|r| r.received_span_s()))?;
    let noise_s = if batching_s > 0.0 {
        0.0
    } else {
        stamp_noise_s(&bursts)
    };
    let noisy = noise_s > STAMP_S;
    let stretch_s = (STRETCH_BATCHES * batching_s)
        .max(STRETCH_NOISES * noise_s)
        .max(LEAST_STRETCH_S);
    let fast = readings
        .iter()
        .filter(|r| r.purpose == Purpose::Sweep && !r.is_lossy())
        .filter(|r| r.sent_bps().is_some_and(|bps| bps > FAST_RATIO * rate_bps));
    let of_bursts = sorted(bursts.iter().filter_map(|r| quickest(r, stretch_s, noisy)));
    let ceiling = ceiling_bps(&of_bursts);
    let of_trains = fast.filter_map(|r| quickest(r, stretch_s, noisy));
    let quickest = sorted(
        of_bursts
            .iter()
            .copied()
            .chain(of_trains)
            .map(|bps| bps.min(ceiling)),
    );
    let capacity_bps = quantile(&quickest, QUICKEST)?.max(rate_bps);
    let gap_s = median(bursts.iter().map(|r| r.bits / rate_bps))?;
    let stamp_s = if batching_s > 0.0 {
        gap_s.min(batching_s)
    } else {
        1e-6
    };
    Some(Dispersion {
        capacity_bps,
        spread_ratio: spread(&quickest),
        error_ratio: (STAMP_PART * stamp_s / stretch_s.min(span_s).max(1e-9)).min(1.0),
        rate_bps,
        batching_s,
        span_s,
        bursts: bursts.len(),
        unstrained: is_unstrained(&bursts),
    })
}

/// No train passes quicker than bursts, which come to the link as densely as can be: what seems to is
/// the catching up of a busy host. One burst may itself be caught up; two are not.
fn ceiling_bps(of_bursts: &[f64]) -> f64 {
    let second = of_bursts.len().saturating_sub(2);
    of_bursts
        .get(second)
        .map_or(f64::INFINITY, |bps| ABOVE_BURSTS * bps)
}

/// A late stamp makes one gap longer and the next one shorter by as much, which nothing on the path
/// does: the covariance of neighbouring gaps is minus the square of the stamps' error.
fn stamp_noise_s(bursts: &[&Reading]) -> f64 {
    let mut pairs = Vec::new();
    for burst in bursts {
        let gaps: Vec<f64> = burst
            .kept
            .windows(2)
            .map(|w| (w[1].received_s - w[0].received_s) / (w[1].index - w[0].index).max(1) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
        pairs.extend(gaps.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)));
    }
    if pairs.len() < LEAST_GAPS {
        return 0.0;
    }
    let Some((covariance, deviation)) = mean_and_deviation(&pairs) else {
        return 0.0;
    };
    let error = deviation / (pairs.len() as f64).sqrt();
    if -covariance > SIGNIFICANT * error {
        (-covariance).sqrt()
    } else {
        0.0
    }
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

/// Bursts tell the batches best; trains only where there is no burst with any.
pub fn batching_s(readings: &[Reading]) -> f64 {
    let of = |purpose: Purpose| {
        let batches = readings
            .iter()
            .filter(|r| r.purpose == purpose)
            .filter_map(|r| r.batching_s);
        batches.fold(0.0, f64::max)
    };
    of(Purpose::Burst)
}

/// The quickest stretch of at least this length. Where stamps are `noisy`, it begins with a packet that
/// was on time: one that a busy host stamped late has a longer delay than those behind it, and makes
/// its stretch too short.
fn quickest(reading: &Reading, stretch_s: f64, noisy: bool) -> Option<f64> {
    let (points, bits) = (&reading.kept, reading.bits);
    let first = points.first()?;
    let last = points.last()?;
    let whole = last.received_s - first.received_s;
    let least_s = stretch_s.min(whole * 0.999);
    let on_time = on_time(points);
    let mut best: f64 = 0.0;
    let mut to = 0;
    for from in 0..points.len() {
        if noisy && !on_time[from] {
            continue;
        }
        while to < points.len()
            && (points[to].received_s - points[from].received_s < least_s
                || points[to].index - points[from].index < LEAST_STRETCH_PACKETS)
        {
            to += 1;
        }
        let Some(end) = points.get(to) else {
            break;
        };
        let count = (end.index - points[from].index) as f64;
        best = best.max(bits * count / (end.received_s - points[from].received_s));
    }
    (best > 0.0).then_some(best)
}

/// Packets that none behind them overtakes in delay.
fn on_time(points: &[Point]) -> Vec<bool> {
    let mut least = f64::INFINITY;
    let mut found: Vec<bool> = points
        .iter()
        .rev()
        .map(|point| {
            let first = point.delay_s() <= least + STAMP_S;
            least = least.min(point.delay_s());
            first
        })
        .collect();
    found.reverse();
    found
}

fn is_unstrained(bursts: &[&Reading]) -> bool {
    let strains = bursts.iter().filter_map(|r| {
        let (sent, received) = (r.sent_bps()?, r.received_bps()?);
        Some(sent / received - 1.0)
    });
    median(strains).is_some_and(|strain| strain < UNSTRAINED)
}
