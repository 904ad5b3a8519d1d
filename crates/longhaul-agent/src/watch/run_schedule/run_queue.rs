//! Waiting runs, and the decision to start them.

use super::schedule_notes::ScheduleNote;
use super::{ClockTimes, LOST_MARGIN_US, MissedReason, RunInProgress, RunSchedule, ScheduledRun};
use crate::watch::SECOND_US;
use crate::watch::daily_budget::BudgetReservation;
use crate::watch::hash_random::{draw_up_to, hash_text};
use crate::watch::measure_jobs::JobKey;
use crate::watch::path_resources::ResourceLocks;
use std::sync::Arc;

/// The number of consecutive failures of a target without consequences.
const MAX_IGNORED_FAILURES: u32 = 2;
const MIN_BACKOFF_US: i64 = 60 * SECOND_US;
const MAX_BACKOFF_US: i64 = 3600 * SECOND_US;
/// The delay after a refusal by a busy server doubles from this to [`MAX_RETRY_US`].
const MIN_RETRY_US: i64 = SECOND_US;
const MAX_RETRY_US: i64 = 60 * SECOND_US;

/// A planned run that has not started.
#[derive(Debug, Clone)]
pub(super) struct WaitingRun {
    pub planned: ScheduledRun,
    /// The time on the steady clock since when it, or the run that it replaced, has waited.
    pub since_us: i64,
    /// The time on the steady clock at which it is given up; `None` if the next run replaces it.
    pub expires_us: Option<i64>,
    /// The earliest retry after a refusal, on the steady clock.
    pub retry_us: i64,
    pub refusals: u32,
    /// The reason why it has not started yet.
    pub waits_for: MissedReason,
}

/// A target that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TargetBackoff {
    pub failures: u32,
    /// The target is skipped until this time on the steady clock.
    pub until_us: i64,
}

impl WaitingRun {
    pub fn new(planned: ScheduledRun, since_us: i64) -> WaitingRun {
        WaitingRun {
            planned,
            since_us,
            expires_us: None,
            retry_us: 0,
            refusals: 0,
            waits_for: MissedReason::Locked,
        }
    }

    /// Returns whether this is a run of a job of the file, and not a requested one.
    pub fn is_scheduled_run_of(&self, key: &JobKey) -> bool {
        !self.planned.requested && self.planned.job.key == *key
    }

    /// Returns the next time at which the run may become able to start, apart from released locks.
    pub fn next_attempt_at(&self, now: ClockTimes) -> Option<i64> {
        let expires = self.expires_us.map(|at| now.wall_at_steady(at));
        let retry = now.wall_at_steady(self.retry_us.max(now.steady_us));
        let opens = match &self.planned.job.window {
            Some(gate) if !gate.is_open(retry) => Some(gate.next_opening(retry)),
            _ if self.retry_us > now.steady_us => Some(retry),
            _ => None,
        };
        expires.into_iter().chain(opens).min()
    }
}

impl TargetBackoff {
    pub fn record_failure(&mut self, now: ClockTimes) {
        self.failures = self.failures.saturating_add(1);
        if let Some(beyond) = self.failures.checked_sub(MAX_IGNORED_FAILURES + 1) {
            let wait = MIN_BACKOFF_US << beyond.min(10);
            self.until_us = now.steady_us + wait.min(MAX_BACKOFF_US);
        }
    }
}

enum StartDecision {
    Start(BudgetReservation),
    Wait(MissedReason),
    Miss(MissedReason),
}

impl RunSchedule {
    /// Puts a refused run back into the queue, to retry a little later.
    pub(super) fn requeue_refused(&mut self, mut run: WaitingRun, now: ClockTimes) {
        let wait = (MIN_RETRY_US << run.refusals.min(8)).min(MAX_RETRY_US);
        let chance =
            draw_up_to(wait, self.seed, &[hash_text(&run.planned.id), u64::from(run.refusals)]);
        run.refusals += 1;
        run.retry_us = now.steady_us + wait + chance;
        run.waits_for = MissedReason::FarEndBusy;
        run.since_us = now.steady_us;
        self.waiting.push(run);
    }

    /// Starts all runs that can start, longest wait first. Heavy runs go before light ones: the
    /// file check accounts for their time, while there may be more light runs than time.
    pub(super) fn start_ready_runs(&mut self, now: ClockTimes) -> Vec<ScheduledRun> {
        let mut started = Vec::new();
        // The resources that are reserved for older heavy runs.
        let mut kept = ResourceLocks::default();
        self.waits_for_host = false;
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|run| (!run.planned.job.heavy, run.since_us));
        for mut run in waiting {
            match self.decide_start(&run, now, &mut kept) {
                StartDecision::Start(reserved) => started.push(self.start_run(run, reserved, now)),
                StartDecision::Miss(reason) => self.miss_run(&run.planned, reason),
                StartDecision::Wait(reason) => {
                    run.waits_for = reason;
                    self.waiting.push(run);
                }
            }
        }
        started
    }

    fn decide_start(
        &mut self,
        run: &WaitingRun,
        now: ClockTimes,
        kept: &mut ResourceLocks,
    ) -> StartDecision {
        let job = &run.planned.job;
        let is_requested = run.planned.requested;
        if run.expires_us.is_some_and(|at| at <= now.steady_us) {
            let reason = if is_requested { MissedReason::WaitedTooLong } else { run.waits_for };
            return StartDecision::Miss(reason);
        }
        if self.stopping {
            return StartDecision::Miss(MissedReason::Stopping);
        }
        let backoff = job.target.as_ref().and_then(|far| self.target_backoffs.get(far));
        if !is_requested && backoff.is_some_and(|it| now.steady_us < it.until_us) {
            return StartDecision::Miss(MissedReason::TargetFailing);
        }
        if now.steady_us < run.retry_us {
            return StartDecision::Wait(MissedReason::FarEndBusy);
        }
        if job.window.is_some_and(|gate| !gate.is_open(now.wall_us)) {
            return StartDecision::Wait(MissedReason::Locked);
        }
        let full = !job.heavy && self.locks.light_runs() >= self.light_at_once;
        if full || !self.locks.are_free(job) || !kept.are_free(job) {
            if job.heavy {
                kept.reserve(job);
            }
            return StartDecision::Wait(MissedReason::Locked);
        }
        if self.host_is_in_use && job.target.is_some() {
            if job.heavy {
                kept.reserve(job);
                self.waits_for_host = true;
            }
            return StartDecision::Wait(MissedReason::Locked);
        }
        match self.budget.reserve(&job.key.measure, job.max_bytes) {
            Some(reserved) => StartDecision::Start(reserved),
            None => StartDecision::Miss(MissedReason::Budget),
        }
    }

    fn start_run(
        &mut self,
        run: WaitingRun,
        reserved: BudgetReservation,
        now: ClockTimes,
    ) -> ScheduledRun {
        self.locks.acquire(&run.planned.job);
        self.notes.push(ScheduleNote::Started(Arc::clone(&run.planned.id)));
        let start = run.planned.clone();
        let lost_us = now.steady_us + 2 * run.planned.job.max_duration_us + LOST_MARGIN_US;
        self.running.insert(Arc::clone(&start.id), RunInProgress { run, reserved, lost_us });
        start
    }
}
