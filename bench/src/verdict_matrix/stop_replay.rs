//! Replays a whole run up to the moment at which the rule of `test --until` would have ended it.
//!
//! Wrong when: the samples of the whole run are sparser than the readings of a run in progress.

use super::matrix_cell::MatrixCell;
use crate::guest_cells::{JudgedCell, group_by_kind};
use crate::markdown_table::{MarkdownTable, format_number, median};
use longhaul_analysis::stop_rule::RunProgress;
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::observation::{StreamEnd, ThroughputObservation};
use longhaul_model::report::v1::plan::RunTransport;

/// The time between two readings of a run in progress.
const READING_US: u64 = 200_000;

/// A run that the rule ended, against the whole run.
#[derive(Debug, Clone)]
pub struct StopReplay {
    /// The share of the bytes that was saved; 0 if the rule let the whole run pass.
    pub saved_ratio: f64,
    pub stopped_us: u64,
    /// The difference from the goodput of the whole run, as a share of it.
    pub error_ratio: f64,
    /// The interval holds the goodput of the whole run.
    pub is_held: bool,
    pub has_same_limiter: bool,
}

/// Replays a run of TCP in one direction; `None` without a goodput.
pub fn replay_stop(report: &ThroughputReport, precision_ratio: f64) -> Option<StopReplay> {
    let (plan, whole) = (&report.plan, &report.observation);
    if plan.transport != RunTransport::Tcp {
        return None;
    }
    let concluded = conclude_throughput(plan, whole).analysis;
    let whole_bps = concluded.goodput_bps? as f64;
    let mut progress = RunProgress::new(plan, whole.forward);
    for at_us in (READING_US..whole.elapsed_us).step_by(READING_US as usize) {
        let near =
            whole.streams.iter().map(|it| if whole.forward { &it.sender } else { &it.receiver });
        let ends: Vec<StreamEnd> = near.map(|end| cut_end(end, at_us, 1)).collect();
        progress.add_reading(&ends);
        if progress.find_wait_reason(precision_ratio).is_some() {
            continue;
        }
        let cut = cut_observation(whole, at_us);
        let analysis = conclude_throughput(plan, &cut).analysis;
        let bps = analysis.goodput_bps? as f64;
        let error_ratio = (bps / whole_bps - 1.0).abs();
        let is_inside = |interval: Option<[u64; 2]>| {
            interval.is_some_and(|[low, high]| (low as f64..=high as f64).contains(&whole_bps))
        };
        let count = |of: &ThroughputObservation| of.ends.receiver.bytes as f64;
        return Some(StopReplay {
            saved_ratio: 1.0 - count(&cut) / count(whole),
            stopped_us: at_us,
            error_ratio,
            is_held: error_ratio <= precision_ratio || is_inside(analysis.goodput_interval_bps),
            has_same_limiter: analysis.limited_by == concluded.limited_by,
        });
    }
    Some(StopReplay {
        saved_ratio: 0.0,
        stopped_us: whole.elapsed_us,
        error_ratio: 0.0,
        is_held: true,
        has_same_limiter: true,
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

/// The kinds whose path changes in the middle of the run: their whole run is not what the rule ended.
const CHANGING_KINDS: [&str; 7] = [
    "datagrams arrive",
    "streams arrive",
    "traffic leaves",
    "traffic on and off",
    "capacity rises",
    "capacity falls",
    "outage",
];

/// Tabulates by kind when the rule ended the runs, and how their results differ from those of whole runs.
pub fn tabulate_stops(judged: &[JudgedCell<MatrixCell>]) -> MarkdownTable {
    let columns = "kind | cells | ended early | median end, s | bytes saved, median, % | \
         error of those that ended, median, % | interval holds, % | same limiter, %";
    let mut table = MarkdownTable::new("Runs that end when their goodput is known", columns);
    for (kind, cells) in group_by_kind(judged) {
        table.row(summarize_stops(kind, &cells));
    }
    let is_stationary = |it: &&JudgedCell<MatrixCell>| !CHANGING_KINDS.contains(&it.drawn.kind);
    let stationary: Vec<_> = judged.iter().filter(is_stationary).collect();
    table.row(summarize_stops("**all whose path does not change**", &stationary));
    table
}

fn summarize_stops(kind: &str, cells: &[&JudgedCell<MatrixCell>]) -> Vec<String> {
    let stops: Vec<&StopReplay> =
        cells.iter().filter_map(|it| it.verdict.as_ref().ok()?.stop.as_ref()).collect();
    let early: Vec<&&StopReplay> = stops.iter().filter(|it| it.saved_ratio > 0.0).collect();
    let share = |of: fn(&StopReplay) -> bool| {
        let count = stops.iter().filter(|it| of(it)).count();
        format_number((!stops.is_empty()).then(|| 100.0 * count as f64 / stops.len() as f64), 1)
    };
    vec![
        kind.to_owned(),
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
