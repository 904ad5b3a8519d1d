//! Replays a whole run up to the moment at which a rule would have ended it.
//!
//! Wrong when: the samples of the whole run are sparser than the readings of a run in progress.

use crate::markdown_table::{format_number, median};
use longhaul_analysis::stop_rule::RunProgress;
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::observation::{StreamEnd, ThroughputObservation};
use longhaul_model::report::v1::plan::RunTransport;

/// The time between two readings of a run in progress.
const READING_US: u64 = 200_000;
/// The rounds without growth after which BBR takes the pipe for full, and the growth that counts
/// (draft-ietf-ccwg-bbr, section 5.3.1.2).
const FULL_PIPE_ROUNDS: u32 = 3;
const FULL_PIPE_GROWTH: f64 = 1.25;

/// A rule that ends a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReplayRule {
    /// The goodput is known to this half-width, as a ratio of it: `longhaul test --until`.
    KnownGoodput(f64),
    /// The rate has not grown by a quarter in three rounds, as in the startup phase of BBR. A round is
    /// an RTT, or the time between two readings if that is longer.
    FullPipe,
    /// The run lasts as long as its plan.
    WholeRun,
}

/// A run that a rule ended, against the whole run.
#[derive(Debug, Clone)]
pub struct StopReplay {
    /// The share of the bytes that was saved; 0 if the rule let the whole run pass.
    pub saved_ratio: f64,
    pub stopped_us: u64,
    /// The time from the start of the steady part of the whole run to the end; `None` without such a part.
    pub steady_us: Option<u64>,
    /// The difference from the goodput of the whole run, as a share of it.
    pub error_ratio: f64,
    /// The interval holds the goodput of the whole run.
    pub is_held: bool,
    pub has_same_limiter: bool,
}

impl StopReplay {
    /// Returns the replay of a run that no rule ended early.
    fn of_whole_run(whole: &ThroughputObservation, steady_us: Option<u64>) -> StopReplay {
        StopReplay {
            saved_ratio: 0.0,
            stopped_us: whole.elapsed_us,
            steady_us,
            error_ratio: 0.0,
            is_held: true,
            has_same_limiter: true,
        }
    }
}

/// The columns that [`summarize_stops`] fills.
pub const STOP_COLUMNS: &str = "runs | ended early | median end, s | bytes saved, median, % | \
     error of those that ended, median, % | interval holds, % | same limiter, %";

/// Replays a run of TCP in one direction; `None` without a goodput. The goodput until the end is that of
/// longhaul's analysis for every rule.
pub fn replay_stop(report: &ThroughputReport, rule: ReplayRule) -> Option<StopReplay> {
    let (plan, whole) = (&report.plan, &report.observation);
    if plan.transport != RunTransport::Tcp {
        return None;
    }
    let concluded = conclude_throughput(plan, whole).analysis;
    let whole_bps = concluded.goodput_bps? as f64;
    let steady_from_us = concluded.steady.map(|span| span.from_us);
    let since_steady = |at_us: u64| steady_from_us.map(|from_us| at_us.saturating_sub(from_us));
    let Some(at_us) = find_end_us(report, rule) else {
        return Some(StopReplay::of_whole_run(whole, since_steady(whole.elapsed_us)));
    };
    let cut = cut_observation(whole, at_us);
    let analysis = conclude_throughput(plan, &cut).analysis;
    let bps = analysis.goodput_bps.or(analysis.mean_goodput_bps)? as f64;
    let error_ratio = (bps / whole_bps - 1.0).abs();
    let is_inside = |interval: Option<[u64; 2]>| {
        interval.is_some_and(|[low, high]| (low as f64..=high as f64).contains(&whole_bps))
    };
    let precision_ratio = match rule {
        ReplayRule::KnownGoodput(ratio) => ratio,
        ReplayRule::FullPipe | ReplayRule::WholeRun => 0.0,
    };
    let count = |of: &ThroughputObservation| of.ends.receiver.bytes as f64;
    Some(StopReplay {
        saved_ratio: 1.0 - count(&cut) / count(whole),
        stopped_us: at_us,
        steady_us: since_steady(at_us),
        error_ratio,
        is_held: error_ratio <= precision_ratio || is_inside(analysis.goodput_interval_bps),
        has_same_limiter: analysis.limited_by == concluded.limited_by,
    })
}

/// Returns the moment at which the rule would have ended the run; `None` if it lasts as planned.
fn find_end_us(report: &ThroughputReport, rule: ReplayRule) -> Option<u64> {
    let whole = &report.observation;
    let mut readings = (READING_US..whole.elapsed_us).step_by(READING_US as usize);
    match rule {
        ReplayRule::KnownGoodput(precision_ratio) => {
            let mut progress = RunProgress::new(&report.plan, whole.forward);
            readings.find(|at_us| {
                let near = whole
                    .streams
                    .iter()
                    .map(|it| if whole.forward { &it.sender } else { &it.receiver });
                let ends: Vec<StreamEnd> = near.map(|end| cut_end(end, *at_us, 1)).collect();
                progress.add_reading(&ends, whole.idle_rtt_us);
                progress.find_wait_reason(precision_ratio).is_none()
            })
        }
        ReplayRule::FullPipe => find_full_pipe_us(whole),
        ReplayRule::WholeRun => None,
    }
}

/// Returns the moment at which BBR would take the pipe for full.
fn find_full_pipe_us(whole: &ThroughputObservation) -> Option<u64> {
    let round_us = READING_US.max(whole.idle_rtt_us.unwrap_or(0));
    let count = |at_us: u64| -> u64 {
        let arrived = whole.streams.iter().map(|it| cut_end(&it.receiver, at_us, 1).bytes);
        arrived.sum()
    };
    let (mut full_bytes, mut rounds) = (0.0, 0);
    (round_us..whole.elapsed_us).step_by(round_us as usize).find(|at_us| {
        let bytes = count(*at_us).saturating_sub(count(at_us - round_us)) as f64;
        if bytes >= FULL_PIPE_GROWTH * full_bytes {
            (full_bytes, rounds) = (bytes, 0);
        } else {
            rounds += 1;
        }
        rounds >= FULL_PIPE_ROUNDS
    })
}

/// Returns the observation as it was at a moment of the run.
fn cut_observation(whole: &ThroughputObservation, at_us: u64) -> ThroughputObservation {
    let mut cut = whole.clone();
    for stream in &mut cut.streams {
        stream.sender = cut_end(&stream.sender, at_us, usize::MAX);
        stream.receiver = cut_end(&stream.receiver, at_us, usize::MAX);
    }
    cut.elapsed_us = at_us;
    cut.ends.sender.bytes = cut.streams.iter().map(|it| it.sender.bytes).sum();
    cut.ends.receiver.bytes = cut.streams.iter().map(|it| it.receiver.bytes).sum();
    cut
}

/// Returns the end with at most so many of the last samples before a moment.
fn cut_end(end: &StreamEnd, at_us: u64, samples: usize) -> StreamEnd {
    let until = end.samples.partition_point(|sample| sample.at_us <= at_us);
    let kept = end.samples[until.saturating_sub(samples)..until].to_vec();
    let last = kept.last();
    StreamEnd {
        bytes: last.map_or(0, |sample| sample.bytes),
        blocked_us: end.blocked_us.and(last.map(|sample| sample.blocked_us)),
        duration_us: last.map_or(0, |sample| sample.at_us.saturating_sub(end.started_us)),
        samples: kept,
        ..end.clone()
    }
}

/// Formats the columns [`STOP_COLUMNS`] of several replays.
pub fn summarize_stops(stops: &[&StopReplay]) -> Vec<String> {
    let early: Vec<&&StopReplay> = stops.iter().filter(|it| it.saved_ratio > 0.0).collect();
    let share = |of: fn(&StopReplay) -> bool| {
        let count = stops.iter().filter(|it| of(it)).count();
        format_number((!stops.is_empty()).then(|| 100.0 * count as f64 / stops.len() as f64), 1)
    };
    vec![
        stops.len().to_string(),
        early.len().to_string(),
        format_median(stops.iter().map(|it| it.stopped_us as f64 / 1e6), 1),
        format_median(stops.iter().map(|it| 100.0 * it.saved_ratio), 0),
        format_median(early.iter().map(|it| 100.0 * it.error_ratio), 1),
        share(|it| it.is_held),
        share(|it| it.has_same_limiter),
    ]
}

fn format_median(values: impl Iterator<Item = f64>, digits: usize) -> String {
    format_number(median(&values.collect::<Vec<_>>()), digits)
}
