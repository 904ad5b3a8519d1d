//! The state of each job of the watch file, for metrics and alerts: whether its last run succeeded.

use crate::watch::measure_jobs::{JobKey, MeasureJob};
use longhaul_model::report::v1::{AnyReport, PathReport};
use longhaul_model::serde_name::name_variant;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason of a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The target was not found, did not answer, or refused.
    Target,
    /// The run has a result, but the target answered no probe.
    NoAnswer,
    /// The run did not end in time.
    Timeout,
    /// This host lacks a right, a kernel feature or disk space.
    Host,
    /// The command line was refused.
    Usage,
    /// The report is missing or cannot be read or stored.
    Report,
}

impl FailureReason {
    /// Returns the word in metric labels.
    pub fn word(self) -> &'static str {
        name_variant(&self)
    }

    /// Returns the reason for an exit code of the program.
    pub fn from_exit_code(code: Option<i32>) -> FailureReason {
        match code {
            Some(2) => FailureReason::Usage,
            Some(3) => FailureReason::Target,
            Some(5) => FailureReason::Host,
            _ => FailureReason::Report,
        }
    }
}

/// A run without a result, or without an answer of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure {
    pub reason: FailureReason,
    /// The reason in words, on one line.
    pub text: String,
}

impl RunFailure {
    pub fn new(reason: FailureReason, text: impl Into<String>) -> RunFailure {
        RunFailure { reason, text: text.into() }
    }
}

/// The outcomes of the runs of one job since the agent started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobStatus {
    pub every_us: i64,
    /// True if the last run succeeded. `None` before the first outcome.
    pub is_up: Option<bool>,
    /// The end of the last run that succeeded.
    pub last_success_us: Option<i64>,
    /// The number of failed runs by reason.
    pub failed: BTreeMap<FailureReason, u64>,
}

impl JobStatus {
    pub fn record_success(&mut self, now_us: i64) {
        self.is_up = Some(true);
        self.last_success_us = Some(now_us);
    }

    pub fn record_failure(&mut self, reason: FailureReason) {
        self.is_up = Some(false);
        *self.failed.entry(reason).or_insert(0) += 1;
    }
}

/// Replaces the jobs by those of the current file, and keeps the outcomes of jobs that remain.
pub fn replace_jobs<'a>(
    known: &mut BTreeMap<JobKey, JobStatus>,
    jobs: impl Iterator<Item = &'a Arc<MeasureJob>>,
) {
    let mut earlier = std::mem::take(known);
    *known = jobs
        .map(|job| {
            let status = earlier.remove(&job.key).unwrap_or_default();
            (job.key.clone(), JobStatus { every_us: job.every_us, ..status })
        })
        .collect();
}

/// Returns whether the target answered. A path run has a result even if nothing answers.
pub fn has_answer(report: &AnyReport) -> bool {
    let AnyReport::Path(report) = report else {
        return true;
    };
    let PathReport { observation: seen, .. } = &**report;
    let echoes = seen.round_trips.iter().flat_map(|it| &it.echoes);
    seen.round_trips_reverse.is_some()
        || seen.route_reverse.is_some()
        || seen.route.as_ref().is_some_and(|it| it.reached)
        || echoes.into_iter().any(|it| it.rtt_ns.is_some())
}
