//! Finds a queue in the RTTs of a run that loses segments.
//!
//! A link with a queue is full before it drops; a policer delays nothing. Source: our experiments
//! (docs/methods/policer-and-shaper.md). Units: microseconds, bytes, segments at the rate of the run.
//! Error: the kernel's smoothed RTT is late by some round trips. Wrong when: a queue holds less than two
//! segments, or the RTT rises for other reasons, such as a receiver that acknowledges late.

use super::loss_slots::{LossSlot, compute_slot_rate, find_window_bytes, is_losing_all_the_time};
use super::run_reading::RunView;
use crate::stats::{compute_median_slope, median, quantile, sort_finite};

/// The parameters of the search for a queue.
pub(super) struct VisibleQueueTuning;

impl VisibleQueueTuning {
    /// The minimum ratio of the rate before the first loss to the policer's, where a queue before the
    /// policer empties when it begins to drop.
    const FAST_START_RATIO: f64 = 1.5;
    /// If RTTs at losses exceed those elsewhere by this much (and this share of the idle RTT), a short
    /// queue filled before each loss: a link, not a policer.
    const QUEUE_RISE_US: f64 = 500.0;
    const QUEUE_RISE_RATIO: f64 = 0.05;
    /// A queue is visible if the RTTs exceed the idle one by the time of so many segments, and by this
    /// share: the higher ones for a queue that comes and goes, half of them for one that stays.
    const QUEUE_SEGMENTS: f64 = 12.0;
    const QUEUE_QUANTILE: f64 = 0.9;
    const QUEUE_SHARE: f64 = 0.1;
    const STANDING_SEGMENTS: f64 = 4.0;
    const STANDING_SHARE: f64 = 0.25;
    /// In a capture, RTTs are exact: half of them exceed the idle one by less than one segment with a policer.
    const CAPTURED_SEGMENTS: f64 = 2.0;
    /// The minimum rise of the RTT, in segments.
    pub const RISE_SEGMENTS: f64 = 2.0;
    /// The minimum share of an increase of the windows that waits in a queue, and the shares of smaller
    /// windows that are left out. Policers of the matrix had at most 0.19; full links with few streams and
    /// without BBR had 0.3 to 1, most of those with a short or managed queue too.
    const MIN_QUEUED_SHARE: f64 = 0.25;
    const SMALL_WINDOWS: [f64; 4] = [0.0, 0.25, 0.5, 0.66];
    /// The maximum ratio of the high to the low windows of a full link, where each loss at most halves
    /// them. With a queue they had up to 2.3; windows that random losses spread and that filled the path at
    /// times had 3 to 15.
    const MAX_WINDOW_SPREAD: f64 = 2.5;
    /// The maximum number of points for that slope, whose time is quadratic.
    const MAX_SLOPE_POINTS: usize = 300;
    /// The minimum number of slots without loss for the comparison.
    const MIN_CALM_SLOTS: usize = 3;
    /// The minimum number of slots with loss for the comparison.
    const MIN_LOSING_SLOTS: usize = 5;
}

/// Returns true if the RTT follows the windows, which losses only halve: a link with a queue so short that
/// the RTT hardly shows it. Random losses spread the windows, and one of them may fill the path, too.
pub fn has_short_queue(run: &RunView) -> bool {
    if run.bbr || run.has_late_acks || run.retransmitted_segments == 0 {
        return false;
    }
    let windows = sort_finite(list_window_trips(run).into_iter().map(|it| it.0));
    let [low, high] = [0.1, 0.9].map(|rank| quantile(&windows, rank).unwrap_or(0.0));
    high <= VisibleQueueTuning::MAX_WINDOW_SPREAD * low && is_queue_of_windows(run, run.level_bps)
}

/// Returns true if a fast start ran through a queue that was shorter at the losses: a link before the
/// policer had it. At the end of a shaper's bucket, or of a capacity, the queue grows.
pub(super) fn has_queue_emptied(slots: &[LossSlot], first_loss: usize, rate_bps: f64) -> bool {
    let (before, after) = slots.split_at(first_loss);
    let losing = after.iter().filter(|slot| slot.lost >= 1.0);
    compute_slot_rate(before) >= VisibleQueueTuning::FAST_START_RATIO * rate_bps
        && median_rtt_us(losing)
            .zip(median_rtt_us(before.iter()))
            .is_some_and(|(late, early)| late < early)
}

/// Returns true if the RTT rises at the losses or with the windows: a queue too short for the common rule.
pub(super) fn is_queue_visible(run: &RunView, slots: &[LossSlot], rate_bps: f64) -> bool {
    if run.has_late_acks {
        return false;
    }
    let all = sort_finite(slots.iter().filter_map(|slot| slot.rtt_us).map(|us| us as f64));
    let idle_us = run.idle_rtt_us.unwrap_or(0) as f64;
    let segment_us = run.segment_us(rate_bps);
    let exceeds = |share_of_trips: f64, segments: f64, share: f64| {
        let visible_us = (segments * segment_us).max(share * idle_us);
        quantile(&all, share_of_trips).is_some_and(|high| high - idle_us > visible_us)
    };
    let high = VisibleQueueTuning::QUEUE_QUANTILE;
    // A full link that loses all the time has a queue all the time.
    if (!is_losing_all_the_time(slots)
        && exceeds(high, VisibleQueueTuning::QUEUE_SEGMENTS, VisibleQueueTuning::QUEUE_SHARE))
        || exceeds(0.5, VisibleQueueTuning::STANDING_SEGMENTS, VisibleQueueTuning::STANDING_SHARE)
        || (run.is_captured
            && exceeds(0.5, VisibleQueueTuning::CAPTURED_SEGMENTS, VisibleQueueTuning::QUEUE_SHARE))
        || is_queue_of_windows(run, rate_bps)
    {
        return true;
    }
    let trips = |losing: bool| {
        let of_kind = slots.iter().filter(|s| (s.lost >= 1.0) == losing);
        sort_finite(of_kind.filter_map(|s| s.rtt_us).map(|us| us as f64))
    };
    let (losing, calm) = (trips(true), trips(false));
    let rise = quantile(&losing, 0.5).zip(quantile(&calm, 0.5)).map(|(l, c)| l - c);
    let telling = VisibleQueueTuning::QUEUE_RISE_US
        .max(VisibleQueueTuning::QUEUE_RISE_RATIO * idle_us)
        .max(VisibleQueueTuning::RISE_SEGMENTS * segment_us);
    losing.len() >= VisibleQueueTuning::MIN_LOSING_SLOTS
        && calm.len() >= VisibleQueueTuning::MIN_CALM_SLOTS.max(losing.len() / 10)
        && rise.is_some_and(|rise| rise >= telling)
}

/// Returns true if a part of an increase of the windows waits in a queue: the slope of the RTT over the
/// windows of all streams, multiplied by the rate, is 1 behind a queue of this run alone. A policer delays
/// nothing, however large the windows are. The smaller windows do not fill the path, and a queue delays by
/// several segments.
fn is_queue_of_windows(run: &RunView, rate_bps: f64) -> bool {
    let mut trips = list_window_trips(run);
    trips.sort_by(|a, b| a.0.total_cmp(&b.0));
    let high_us = quantile(&sort_finite(trips.iter().map(|it| it.1)), 0.9).unwrap_or(0.0);
    let rise_us = high_us - run.idle_rtt_us.unwrap_or(0) as f64;
    let slopes = VisibleQueueTuning::SMALL_WINDOWS.map(|ratio| {
        let small = (trips.len() as f64 * ratio) as usize;
        compute_median_slope(&trips[small..]).unwrap_or(0.0) * rate_bps / 8e6
    });
    let steep =
        slopes.iter().filter(|share| **share >= VisibleQueueTuning::MIN_QUEUED_SHARE).count();
    // One alone is a coincidence, unless the slope grows with the windows. BBR's windows hardly vary.
    rise_us >= VisibleQueueTuning::RISE_SEGMENTS * run.segment_us(rate_bps)
        && (steep > 1 || (steep == 1 && (run.bbr || slopes.is_sorted())))
}

/// Returns the windows of all streams together, in bytes, and the RTT in microseconds at the same time.
fn list_window_trips(run: &RunView) -> Vec<(f64, f64)> {
    let grid = run.streams.iter().max_by_key(|it| it.len()).map_or(&[][..], |it| it);
    let step = grid.len() / VisibleQueueTuning::MAX_SLOPE_POINTS + 1;
    let points = grid.iter().step_by(step).filter_map(|it| {
        let windows = run.streams.iter().map(|stream| find_window_bytes(stream, it.to_us));
        Some((windows.sum(), it.rtt_us? as f64))
    });
    points.collect()
}

fn median_rtt_us<'s>(slots: impl Iterator<Item = &'s LossSlot>) -> Option<f64> {
    median(slots.filter_map(|slot| slot.rtt_us).map(|us| us as f64))
}

#[cfg(test)]
mod tests {
    use super::has_queue_emptied;
    use crate::limit::loss_slots::build_losing_slots;

    const SLOTS: usize = 99;

    #[test]
    fn a_queue_before_the_policer_empties_after_a_fast_start() {
        let bytes: Vec<f64> =
            (0..SLOTS).map(|number| if number < 4 { 3e6 } else { 0.7e6 }).collect();
        let slots_with_rtts = |early_us: u64, late_us: u64| {
            let mut slots =
                build_losing_slots(&bytes, |number| if number < 4 { early_us } else { late_us });
            slots[..4].iter_mut().for_each(|slot| slot.lost = 0.0);
            slots
        };
        assert!(has_queue_emptied(&slots_with_rtts(4_500, 1_500), 4, 56e6));
        // A shaper's queue grows.
        assert!(!has_queue_emptied(&slots_with_rtts(1_500, 4_500), 4, 56e6));
        // Nothing was faster before.
        assert!(!has_queue_emptied(&slots_with_rtts(4_500, 1_500)[2..], 2, 200e6));
    }
}
