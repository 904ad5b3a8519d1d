//! Adapts the connections and disk threads of a running copy to what limits it.
//!
//! Every trial doubles the number of those workers that limit the copy at the moment: connections for
//! the network, readers or writers for a disk. Their rate is compared with that before, after a time
//! for slow start. If it did not rise significantly, the number goes back, and the same is not tried
//! again until another stage limits the copy or the rate is another.
//!
//! Units: microseconds, bytes, bit/s. Source: hill climbing; the rank sum test of
//! [`crate::stats::sample_change`]. Error: on a full path with correlated noise of 10 %, fewer than 5
//! of 100 trials keep workers that add nothing (tests).
//! Wrong when: the rate changes for another reason while a trial runs, such as other traffic.

use crate::copy_analysis::{find_clear_limiter, split_stage_times, total_stage_us};
use crate::stats::median;
use crate::stats::sample_change::{LEVEL, compare_samples};
use longhaul_model::report::v1::copy::{
    CopyAdjustment, CopyConcurrency, CopyEndCounts, CopyLimiter, CopyStage, CopyWorkers,
};
use std::collections::VecDeque;

/// The parameters of the search.
struct AdaptationTuning;

impl AdaptationTuning {
    /// The interval over which a rate is measured, at least, in time and in round trips.
    const MIN_INTERVAL_US: u64 = 250_000;
    const INTERVAL_TRIPS: u64 = 2;
    /// The time after a change in which rates are not counted: slow start and its losses.
    const MIN_SETTLING_US: u64 = 2_000_000;
    const SETTLING_TRIPS: u64 = 20;
    /// The intervals before and after a change: so few that the test is exact, and correlation is
    /// left to the minimum gain.
    const INTERVALS: usize = 9;
    const FACTOR: u32 = 2;
    /// The minimum gain for twice the workers.
    const MIN_GAIN_RATIO: f64 = 0.1;
    /// A level that differs by this share is another one, at which a trial may be repeated.
    const OTHER_RATE_RATIO: f64 = 0.3;
    /// The minimum share of the time of the connections that has to be accounted for.
    const MIN_ACCOUNTED_RATIO: f64 = 0.5;
    /// The minimum time left, in durations of a trial.
    const MIN_LEFT_TRIALS: f64 = 2.0;
}

/// The limit of connections that a copy adds to by itself.
pub const MAX_ADDED_STREAMS: u32 = 32;

/// The state of a copy at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopySample {
    pub elapsed_us: u64,
    /// Bytes that have passed the connections.
    pub network_bytes: u64,
    /// Bytes still to copy; `None` for a stream.
    pub left_bytes: Option<u64>,
    pub idle_rtt_us: u64,
    pub source: CopyEndCounts,
    pub target: CopyEndCounts,
    pub concurrency: CopyConcurrency,
}

/// A search for the number of connections and disk threads, fed with samples of a running copy.
#[derive(Debug)]
pub struct CopyAdapter {
    /// The maximum of each.
    limits: CopyConcurrency,
    /// The time until which rates are not counted.
    settled_us: Option<u64>,
    /// The start of the interval in progress.
    begin: Option<CopySample>,
    /// The latest intervals since the last change.
    intervals: VecDeque<RateInterval>,
    trial: Option<WorkerTrial>,
    rejected: Vec<RejectedTrial>,
    adjustments: Vec<CopyAdjustment>,
}

#[derive(Debug, Clone, Copy)]
struct RateInterval {
    begin: CopySample,
    rate_bps: f64,
}

/// A change whose effect is measured.
#[derive(Debug)]
struct WorkerTrial {
    previous: CopyConcurrency,
    requested: CopyConcurrency,
    before_bps: Vec<f64>,
}

/// A trial without a gain, with the situation in which it would have none again.
#[derive(Debug)]
struct RejectedTrial {
    workers: CopyWorkers,
    limited_by: CopyLimiter,
    before_bps: Vec<f64>,
}

impl CopyAdapter {
    /// Creates a search that exceeds none of these numbers.
    pub fn new(limits: CopyConcurrency) -> CopyAdapter {
        CopyAdapter {
            limits,
            settled_us: None,
            begin: None,
            intervals: VecDeque::new(),
            trial: None,
            rejected: Vec::new(),
            adjustments: Vec::new(),
        }
    }

    /// Returns all changes, with the last one possibly not judged.
    pub fn into_adjustments(self) -> Vec<CopyAdjustment> {
        self.adjustments
    }

    /// Adds a sample; returns the numbers with which the copy should continue if they change.
    pub fn add_sample(&mut self, sample: &CopySample) -> Option<CopyConcurrency> {
        if sample.elapsed_us < *self.settled_us.get_or_insert(settling_us(sample)) {
            return None;
        }
        let begin = *self.begin.get_or_insert(*sample);
        let span_us = sample.elapsed_us.saturating_sub(begin.elapsed_us);
        if span_us < interval_us(sample) {
            return None;
        }
        let bytes = sample.network_bytes.saturating_sub(begin.network_bytes);
        let rate_bps = bytes as f64 * 8e6 / span_us as f64;
        self.intervals.push_back(RateInterval { begin, rate_bps });
        self.begin = Some(*sample);
        if self.intervals.len() < AdaptationTuning::INTERVALS {
            return None;
        }
        if self.intervals.len() > AdaptationTuning::INTERVALS {
            self.intervals.pop_front();
        }
        match self.trial.take() {
            Some(trial) => self.judge_trial(trial, sample),
            None => self.begin_trial(sample),
        }
    }

    /// Counts rates only after the copy has settled again.
    fn settle(&mut self, sample: &CopySample) {
        self.settled_us = Some(sample.elapsed_us + settling_us(sample));
        self.begin = None;
        self.intervals.clear();
    }

    fn interval_rates(&self) -> Vec<f64> {
        self.intervals.iter().map(|interval| interval.rate_bps).collect()
    }

    fn begin_trial(&mut self, sample: &CopySample) -> Option<CopyConcurrency> {
        let before_bps = self.interval_rates();
        let (limited_by, workers) = find_limiting_workers(&self.intervals.front()?.begin, sample);
        let known = self.rejected.len();
        self.rejected.retain(|trial| {
            let same = limited_by == CopyLimiter::CannotTell || limited_by == trial.limited_by;
            same && !has_other_level(&trial.before_bps, &before_bps)
        });
        if self.rejected.len() < known {
            // A trial begins with intervals of the new situation alone.
            self.settle(sample);
            return None;
        }
        let workers = workers?;
        let mut requested = sample.concurrency;
        let count = requested.count_mut(workers);
        let from = *count;
        *count = (from * AdaptationTuning::FACTOR).min(*self.limits.count_mut(workers));
        let to = *count;
        let level_bps = median(before_bps.iter().copied())?;
        let is_open = to > from && !self.rejected.iter().any(|trial| trial.workers == workers);
        if !is_open || is_rising(&before_bps) || !has_time_left(sample, level_bps) {
            return None;
        }
        self.adjustments.push(CopyAdjustment {
            elapsed_us: sample.elapsed_us,
            workers,
            workers_before: from,
            workers_after: to,
            limited_by,
            before_bps: level_bps as u64,
            after_bps: None,
            kept: None,
        });
        self.trial = Some(WorkerTrial { previous: sample.concurrency, requested, before_bps });
        self.settle(sample);
        Some(requested)
    }

    fn judge_trial(&mut self, trial: WorkerTrial, sample: &CopySample) -> Option<CopyConcurrency> {
        if sample.concurrency != trial.requested {
            // The peer refused; nothing was changed.
            if let Some(refused) = self.adjustments.pop() {
                *self.limits.count_mut(refused.workers) = refused.workers_before;
            }
            return None;
        }
        let after_bps = self.interval_rates();
        let level_bps = median(trial.before_bps.iter().copied())?;
        let change = compare_samples(&trial.before_bps, &after_bps)?;
        let gains = change.shift >= AdaptationTuning::MIN_GAIN_RATIO * level_bps;
        let kept = gains && change.p.is_some_and(|p| p <= LEVEL);
        let adjustment = self.adjustments.last_mut()?;
        adjustment.after_bps = median(after_bps).map(|bps| bps as u64);
        adjustment.kept = Some(kept);
        if kept {
            self.rejected.clear();
            return None;
        }
        self.rejected.push(RejectedTrial {
            workers: adjustment.workers,
            limited_by: adjustment.limited_by,
            before_bps: trial.before_bps,
        });
        self.settle(sample);
        Some(trial.previous)
    }
}

fn interval_us(sample: &CopySample) -> u64 {
    (AdaptationTuning::INTERVAL_TRIPS * sample.idle_rtt_us).max(AdaptationTuning::MIN_INTERVAL_US)
}

fn settling_us(sample: &CopySample) -> u64 {
    (AdaptationTuning::SETTLING_TRIPS * sample.idle_rtt_us).max(AdaptationTuning::MIN_SETTLING_US)
}

/// Returns what limited the copy between two samples, and the workers of which more may help.
fn find_limiting_workers(
    begin: &CopySample,
    end: &CopySample,
) -> (CopyLimiter, Option<CopyWorkers>) {
    let source = count_since(&begin.source, &end.source);
    let target = count_since(&begin.target, &end.target);
    let all_us = (end.elapsed_us - begin.elapsed_us) * u64::from(end.concurrency.streams);
    let accounted_us = total_stage_us(&source.network) as f64;
    if accounted_us < AdaptationTuning::MIN_ACCOUNTED_RATIO * all_us as f64 {
        return (CopyLimiter::CannotTell, None);
    }
    let limited_by = find_clear_limiter(&split_stage_times(&source, &target, 0.0));
    let workers = match limited_by {
        CopyLimiter::Network => Some(CopyWorkers::Streams),
        // Readers hash what they read.
        CopyLimiter::SourceDisk | CopyLimiter::SourceCpu => Some(CopyWorkers::Readers),
        // The threads of the connections hash what arrives.
        CopyLimiter::TargetCpu if target.network.blocked_us < target.hash_us => {
            Some(CopyWorkers::Streams)
        }
        CopyLimiter::TargetDisk | CopyLimiter::TargetCpu => Some(CopyWorkers::Writers),
        CopyLimiter::CannotTell => None,
    };
    (limited_by, workers)
}

/// Returns the times that one end has counted since an earlier reading.
fn count_since(earlier: &CopyEndCounts, now: &CopyEndCounts) -> CopyEndCounts {
    let stage = |earlier: &CopyStage, now: &CopyStage| {
        let core_wait_us = |stage: &CopyStage| stage.core_wait_us.unwrap_or(0);
        CopyStage {
            threads: now.threads,
            busy_us: now.busy_us.saturating_sub(earlier.busy_us),
            cpu_us: now.cpu_us.saturating_sub(earlier.cpu_us),
            idle_us: now.idle_us.saturating_sub(earlier.idle_us),
            blocked_us: now.blocked_us.saturating_sub(earlier.blocked_us),
            core_wait_us: Some(core_wait_us(now).saturating_sub(core_wait_us(earlier))),
        }
    };
    CopyEndCounts {
        disk: stage(&earlier.disk, &now.disk),
        network: stage(&earlier.network, &now.network),
        hash_us: now.hash_us.saturating_sub(earlier.hash_us),
        ..CopyEndCounts::default()
    }
}

/// Returns whether the rate is significantly another one.
fn has_other_level(then_bps: &[f64], now_bps: &[f64]) -> bool {
    let Some(change) = compare_samples(then_bps, now_bps) else { return false };
    let level_bps = median(then_bps.iter().copied()).unwrap_or(0.0);
    change.shift.abs() > AdaptationTuning::OTHER_RATE_RATIO * level_bps
        && change.p.is_some_and(|p| p <= LEVEL)
}

/// Returns whether the rate rises by itself, so that a gain would prove nothing.
fn is_rising(rates_bps: &[f64]) -> bool {
    let (first, second) = rates_bps.split_at(rates_bps.len() / 2);
    let Some(change) = compare_samples(first, second) else { return false };
    let level_bps = median(first.iter().copied()).unwrap_or(0.0);
    change.shift > AdaptationTuning::MIN_GAIN_RATIO / 2.0 * level_bps
        && change.p.is_some_and(|p| p <= LEVEL)
}

/// Returns whether a trial would be over long before the copy.
fn has_time_left(sample: &CopySample, rate_bps: f64) -> bool {
    let intervals_us = AdaptationTuning::INTERVALS as u64 * interval_us(sample);
    let trial_us = (settling_us(sample) + intervals_us) as f64;
    sample.left_bytes.is_none_or(|left| {
        left as f64 * 8e6 > rate_bps * trial_us * AdaptationTuning::MIN_LEFT_TRIALS
    })
}

#[cfg(test)]
mod tests;
