//! Names the limiter of a run and its confidence.
//!
//! The limiter with the largest share. If two hold 30 % each, both are reported. A run that ended
//! before its rate could settle is limited by its ramp, whatever its intervals show.
//!
//! Source: docs/methods/limited-by.md; a run of fewer than 20 round trips shows its ramp only.
//! Units: shares of bytes, microseconds. Error: the share of other limiters.
//! Wrong when: the run is nearly all `unknown`; then the verdict is unknown.

use super::interval_state::{IntervalState, StateShares, attribute_bytes};
use super::run_reading::RunView;
use super::{loss_windows, policer_fit};
use crate::stats::{mad_scale, median, quantile, sort_finite};
use crate::throughput;
use crate::throughput::arrival_timeline::ArrivalBin;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::ObservedStream;
use longhaul_model::report::v1::plan::RunTransport;

/// A limiter with this share is the only limiter.
pub const PRIMARY_RATIO: f64 = 0.6;
/// If two limiters have this share each, both are named.
pub const SHARED_RATIO: f64 = 0.3;
/// A host that is busy for a larger share of the run leaves its limiter unknown.
pub const MAX_BUSY_RATIO: f64 = 0.5;
/// The parameters of the verdict.
struct VerdictTuning;

impl VerdictTuning {
    /// The minimum share of a limiter that is named.
    const MIN_SHARE: f64 = 0.35;
    /// Without a steady part, this share of ramp states makes the run a ramp.
    const RAMP_RATIO: f64 = 0.3;
    /// Losses that would allow only this share of the mean rate were caused by the run itself.
    const OWN_LOSS_RATIO: f64 = 0.05;
    /// Random losses allow the level of the rate to be within these multiples of their bound.
    const BOUND_RATIOS: std::ops::RangeInclusive<f64> = 0.25..=3.0;
    /// RTTs this much above the idle one, as a share, may be a queue.
    const QUEUE_RATIO: f64 = 0.1;
    /// High RTTs that exceed the idle one by the time of so many segments are a queue beside a policer:
    /// on drawn networks policers had up to 5, with one exception.
    const QUEUE_SEGMENTS: f64 = 6.0;
    /// The same for the low RTTs: others may keep a queue filled, whose segments take less time than those of
    /// this run.
    const STANDING_SEGMENTS: f64 = 2.0;
    /// The confidence that doubt leaves.
    const DOUBTED_RATIO: f64 = 0.6;
    /// The confidence in random loss if the sender's bursts may overrun a bucket of a few packets, which
    /// counters do not show.
    const BURSTY_LOSS_RATIO: f64 = 0.8;
    /// The share of wrong ones among verdicts that accuse nobody and explain almost nothing, and the ratio from
    /// which there were enough of them. On five drawn seeds, 88 % of those said with 0.85 to 0.95 were right.
    const WRONG_RATIO: f64 = 0.27;
    const MIN_CALIBRATED_RATIO: f64 = 0.4;
    /// UDP: the requested rate was delivered if this share of it arrived.
    const UDP_DELIVERED_RATIO: f64 = 0.97;
    /// UDP: a loss ratio above this limits the rate.
    const UDP_LOSS_RATIO: f64 = 0.005;
    /// UDP: arrivals with less than this share of the variance of random loss are at a constant rate.
    const UDP_CONSTANT_RATIO: f64 = 0.25;
    const MIN_UDP_BINS: usize = 10;
}

/// A run of fewer round trips shows only its beginning; one of more is not a ramp, steady or not.
pub const SHORT_TRIPS: u64 = 20;
const LONG_TRIPS: u64 = 100;

#[derive(Debug, Clone)]
pub struct RunVerdict {
    pub limiter: Limiter,
    pub confidence_ratio: f64,
    pub shares: StateShares,
    /// Another limiter with a large share.
    pub second: Option<(Limiter, f64)>,
}

/// Returns the limiter of the run. While a host is busy, its readings look like those of other limits: they
/// lower the confidence, and beyond a bound the limiter is unknown. A busy core, and an application or
/// pacing that keeps its requested rate, are certain all the same.
pub fn find_limiter(run: &RunView) -> RunVerdict {
    let told = find_told_limiter(run);
    let confidence_ratio = calibrate_confidence(told.limiter, told.confidence_ratio);
    let told = RunVerdict { confidence_ratio, ..told };
    let plan = run.plan;
    let is_rate_requested = matches!(plan.transport, RunTransport::Udp { .. })
        || plan.write_rate_bps.or(plan.read_rate_bps).is_some();
    match told.limiter {
        Limiter::CpuSender | Limiter::CpuReceiver | Limiter::Pacing => told,
        Limiter::Application if is_rate_requested => told,
        _ if run.busy_ratio > MAX_BUSY_RATIO => {
            RunVerdict { limiter: Limiter::Unknown, confidence_ratio: 0.0, second: None, ..told }
        }
        _ => {
            let confidence_ratio = told.confidence_ratio * (1.0 - run.busy_ratio);
            RunVerdict { confidence_ratio, ..told }
        }
    }
}

/// Returns the probability that this limiter limits a run of which it explains `ratio`. A path that is full
/// and a window accuse nobody, so their probability is that of the matrix of verdicts, in which 0.15 of those
/// with 0.4 to 0.8 were wrong. Others keep what they explain: a false accusation costs more than a doubt.
pub fn calibrate_confidence(limiter: Limiter, ratio: f64) -> f64 {
    let least = VerdictTuning::MIN_CALIBRATED_RATIO;
    match limiter {
        Limiter::PathCapacity | Limiter::ReceiveWindow | Limiter::SendBuffer => {
            let known = 1.0 - VerdictTuning::WRONG_RATIO * (1.0 - ratio.max(least));
            known * (ratio / least).min(1.0)
        }
        _ => ratio,
    }
}

fn find_told_limiter(run: &RunView) -> RunVerdict {
    let shares = attribute_bytes(run);
    if let RunTransport::Udp { rate_bps } = run.plan.transport {
        return judge_datagrams(run, shares, rate_bps);
    }
    let ranked = shares.limiters();
    let (first, share) = ranked.first().copied().unwrap_or((Limiter::Unknown, 0.0));
    let second = ranked.get(1).copied().filter(|s| s.1 >= SHARED_RATIO);
    if let Some(confidence_ratio) = rate_ramp_confidence(run, &shares) {
        return RunVerdict { limiter: Limiter::Ramp, confidence_ratio, shares, second: None };
    }
    let limiter = if share >= VerdictTuning::MIN_SHARE { first } else { Limiter::Unknown };
    let confidence_ratio = match limiter {
        Limiter::Unknown => 0.0,
        _ => share * (1.0 - shares.state(IntervalState::Unknown)) * rate_explanation(run, limiter),
    };
    RunVerdict { limiter, confidence_ratio, shares, second }
}

/// Returns the part of the confidence that evidence against the limiter leaves. The capacity of a path
/// that was full before a step may have fallen. A policer has no queue; a few losses at large windows are weak
/// evidence for it, and so is a rate that random losses may leave as constant. Losses are hardly random if
/// the goodput is far from what they allow or nearly constant, if the RTT varies as with a queue of others, or
/// if they come at large windows.
fn rate_explanation(run: &RunView, limiter: Limiter) -> f64 {
    let is_doubtful = match limiter {
        Limiter::Shaper => run.levels.len() > 1,
        Limiter::Policer => {
            let rises = |rank: f64, segments: f64| {
                let queue_us = segments * run.segment_us(run.level_bps);
                find_queue_rise_us(run, rank).is_some_and(|rise_us| rise_us > queue_us)
            };
            rises(0.9, VerdictTuning::QUEUE_SEGMENTS)
                || rises(0.1, VerdictTuning::STANDING_SEGMENTS)
                || run.policer.is_some_and(|it| !it.is_certain)
        }
        Limiter::Loss => {
            let ratio = run.random_loss_bound_bps().map_or(1.0, |bound| run.level_bps / bound);
            run.may_be_policed
                || find_queue_rise_us(run, 0.5).is_some()
                || loss_windows::has_unlikely_windows(run)
                || policer_fit::is_nearly_even(run)
                || !VerdictTuning::BOUND_RATIOS.contains(&ratio)
        }
        _ => false,
    };
    match limiter {
        _ if is_doubtful => VerdictTuning::DOUBTED_RATIO,
        Limiter::Loss if run.has_unseen_bursts() => VerdictTuning::BURSTY_LOSS_RATIO,
        _ => 1.0,
    }
}

/// Returns the distance of this quantile of the RTTs to the idle RTT, if it is so large a share of it
/// that there may be a queue.
fn find_queue_rise_us(run: &RunView, rank: f64) -> Option<f64> {
    let trips = sort_finite(run.judged_intervals().filter_map(|i| i.rtt_us).map(|us| us as f64));
    let idle_us = run.idle_rtt_us.unwrap_or(0) as f64;
    quantile(&trips, rank)
        .map(|rtt| rtt - idle_us)
        .filter(|rise_us| *rise_us > VerdictTuning::QUEUE_RATIO * idle_us)
}

/// Returns the confidence that the run was too short to show more than its ramp, if it was.
pub fn rate_ramp_confidence(run: &RunView, shares: &StateShares) -> Option<f64> {
    let (first, share) = shares.limiters().first().copied().unwrap_or((Limiter::Unknown, 0.0));
    let elapsed = run.arrivals.to_us() - run.arrivals.from_us();
    let trips = run.idle_rtt_us.and_then(|rtt| elapsed.checked_div(rtt));
    let settled = run.steady.is_some() && share >= PRIMARY_RATIO;
    // An application limits a short run only if a low rate was requested: otherwise a short
    // transfer fits into the send buffer, and the sender has nothing more to write.
    let slow = run.plan.write_rate_bps.is_some() || run.plan.read_rate_bps.is_some();
    let slow_by_plan = slow && first == Limiter::Application;
    if trips.is_some_and(|n| n < SHORT_TRIPS) && !settled && !slow_by_plan {
        let sureness = 1.0 - trips.unwrap_or(0) as f64 / (2 * SHORT_TRIPS) as f64;
        return Some(sureness.max(shares.limiter(Limiter::Ramp)));
    }
    if run.steady.is_some() || trips.is_some_and(|n| n >= LONG_TRIPS) {
        return None;
    }
    let ramping = shares.limiter(Limiter::Ramp);
    let unexplained = shares.limiter(Limiter::Unknown) >= PRIMARY_RATIO;
    let climbs = throughput::is_still_climbing(&run.arrivals);
    let overshot = first == Limiter::Loss && is_self_inflicted_loss(run);
    (ramping >= VerdictTuning::RAMP_RATIO || (climbs && unexplained) || overshot)
        .then_some(ramping.max(0.5))
}

/// Returns true if slow start overran the path and lost a burst from which the run did not recover:
/// the same loss spread over the run would allow almost no throughput.
fn is_self_inflicted_loss(run: &RunView) -> bool {
    let streams = run.observation.streams.iter();
    let bytes: f64 = streams.map(|s| s.receiver.bytes as f64).sum();
    let mean_bps = bytes * 8e6 / run.observation.elapsed_us.max(1) as f64;
    let bound = run.random_loss_bound_bps();
    bound.is_some_and(|bound| bound < VerdictTuning::OWN_LOSS_RATIO * mean_bps)
}

fn judge_datagrams(run: &RunView, shares: StateShares, rate_bps: u64) -> RunVerdict {
    let totals = &run.totals;
    let seconds = run.observation.elapsed_us.max(1) as f64 / 1e6;
    let asked = rate_bps as f64;
    let sent = totals.sender_bytes as f64 * 8.0 / seconds;
    let came = totals.receiver_bytes as f64 * 8.0 / seconds;
    let (limiter, confidence_ratio) = if totals.sender_bytes == 0 {
        (Limiter::Unknown, 0.0)
    } else if came >= VerdictTuning::UDP_DELIVERED_RATIO * asked {
        (Limiter::Application, 1.0)
    } else if totals.loss_ratio.is_some_and(|ratio| ratio > VerdictTuning::UDP_LOSS_RATIO) {
        if is_constant_delivery(run) { (Limiter::PathCapacity, 0.9) } else { (Limiter::Loss, 0.8) }
    } else if sent < VerdictTuning::UDP_DELIVERED_RATIO * asked && is_sender_busy(run) {
        (Limiter::CpuSender, 0.8)
    } else {
        (Limiter::Unknown, 0.0)
    };
    RunVerdict { limiter, confidence_ratio, shares, second: None }
}

/// Returns true if the datagrams that arrive vary less than random loss allows: a full link passes a
/// constant rate. Of n datagrams of which a random share p is lost, n p (1 - p) is the variance.
fn is_constant_delivery(run: &RunView) -> bool {
    let streams = run.observation.streams.iter().map(count_datagrams);
    let datagrams = streams.fold(0, u64::saturating_add);
    let (Some(loss), true) = (run.totals.loss_ratio, datagrams > 0) else {
        return false;
    };
    let size = run.totals.receiver_bytes as f64 / datagrams as f64;
    let bins = run.arrivals.bins.iter().skip(run.arrivals.bins.len() / 10);
    let counts: Vec<f64> = bins.map(|bin| bin.bytes / size / bin.seconds().max(1e-6)).collect();
    let seconds = median(run.arrivals.bins.iter().map(ArrivalBin::seconds)).unwrap_or(0.0);
    mad_scale(&counts).zip(median(counts.iter().copied())).is_some_and(|(scatter, level)| {
        // Rates per second, as counts of one bin.
        let (scatter, came) = (scatter * seconds, level * seconds);
        let expected = came / (1.0 - loss).max(f64::MIN_POSITIVE) * loss * (1.0 - loss);
        counts.len() >= VerdictTuning::MIN_UDP_BINS
            && scatter * scatter < VerdictTuning::UDP_CONSTANT_RATIO * expected
    })
}

fn count_datagrams(stream: &ObservedStream) -> u64 {
    stream.receiver.udp.as_ref().map_or(0, |udp| udp.datagrams)
}

fn is_sender_busy(run: &RunView) -> bool {
    let ends = run.observation.streams.iter().map(|s| &s.sender);
    let mut busy = ends.filter_map(|e| Some(e.cpu_us? as f64 / e.duration_us.max(1) as f64));
    busy.any(|share| share >= 0.85)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_in_a_full_path_rises_with_what_it_explains_and_accusations_keep_theirs() {
        let ratios = [0.0, 0.2, 0.4, 0.7, 1.0];
        let full = ratios.map(|ratio| calibrate_confidence(Limiter::PathCapacity, ratio));
        assert!(full.is_sorted() && full.iter().zip(ratios).all(|(own, raw)| *own >= raw));
        assert!(full[0] < 1e-9 && full[4] > 1.0 - 1e-9, "{full:?}");
        assert!((0.85..0.95).contains(&full[3]), "{full:?}");
        assert!((calibrate_confidence(Limiter::Policer, 0.7) - 0.7).abs() < 1e-9);
    }
}
