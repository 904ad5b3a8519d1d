//! Requests from outside: reload, requested runs, shutdown.

use super::{ClockTimes, JobSlot, MissedReason, RunId, RunSchedule, ScheduledRun, WaitingRun};
use crate::watch::SECOND_US;
use crate::watch::measure_jobs::{self, JobKey, MeasureJob, MeshTurns};
use crate::watch::watch_file::WatchFile;
use std::collections::HashSet;
use std::sync::Arc;

/// The maximum time that a requested run waits.
const REQUEST_TIMEOUT_US: i64 = 3600 * SECOND_US;
/// The maximum number of waiting requested runs.
const MAX_REQUESTED_RUNS: usize = 100;

/// The id of a requested run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedRun {
    Queued(RunId),
    /// A requested run of this job is waiting already.
    AlreadyQueued(RunId),
}

/// The reason why a run request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RunRequestError {
    #[error("the watch file has no such measurement for this path")]
    Unknown,
    #[error("too many requested runs are already queued")]
    Full,
    #[error("the agent is stopping")]
    Stopping,
}

impl RunSchedule {
    /// Requests a run now, through the same queue as all others. A failing target does not prevent
    /// it; budgets and locks apply.
    pub fn request_run(
        &mut self,
        key: &JobKey,
        now: ClockTimes,
    ) -> Result<RequestedRun, RunRequestError> {
        let slot = self.slots.iter().find(|slot| slot.job.key == *key);
        let job = Arc::clone(&slot.ok_or(RunRequestError::Unknown)?.job);
        self.request_job(&job, now)
    }

    /// Like [`RunSchedule::request_run`], for a job that the file does not contain.
    pub fn request_job(
        &mut self,
        job: &Arc<MeasureJob>,
        now: ClockTimes,
    ) -> Result<RequestedRun, RunRequestError> {
        let now = now.clamped();
        self.advance_clock(now);
        if self.stopping {
            return Err(RunRequestError::Stopping);
        }
        let requested: Vec<&ScheduledRun> =
            self.waiting.iter().map(|it| &it.planned).filter(|it| it.requested).collect();
        if let Some(waits) = requested.iter().find(|it| it.job.key == job.key) {
            return Ok(RequestedRun::AlreadyQueued(Arc::clone(&waits.id)));
        }
        if requested.len() >= MAX_REQUESTED_RUNS {
            return Err(RunRequestError::Full);
        }
        let planned = self.plan_run(job, now.wall_us, true);
        let id = Arc::clone(&planned.id);
        // In a mesh it waits for the turn of its pair.
        let turn = job.window.map_or(0, |gate| 2 * gate.cycle_us);
        let expires_us = Some(now.steady_us + turn.max(REQUEST_TIMEOUT_US));
        self.waiting.push(WaitingRun { expires_us, ..WaitingRun::new(planned, now.steady_us) });
        Ok(RequestedRun::Queued(id))
    }

    /// Applies a new file. Running and waiting runs continue as planned, even if their job is gone.
    pub fn reload(&mut self, file: &WatchFile, now: ClockTimes) {
        let now = now.clamped();
        // Runs that came due under the old file are planned under it.
        self.advance_clock(now);
        self.agent = file.agent.name.as_str().into();
        self.catch_up = file.agent.catch_up;
        self.light_at_once = file.agent.light_at_once;
        self.budget.apply_file(file);
        let turns = MeshTurns::from_file(file);
        let jobs = measure_jobs::build_jobs(file, turns.as_ref(), self.seed);
        self.slots = jobs.into_iter().map(JobSlot::new).collect();
        self.reset_intervals(now.wall_us);
        let keys: HashSet<&JobKey> = self.slots.iter().map(|slot| &slot.job.key).collect();
        for run in &mut self.waiting {
            // No later run replaces it.
            if !run.planned.requested && !keys.contains(&run.planned.job.key) {
                run.expires_us = Some(now.steady_us + run.planned.job.every_us);
            }
        }
    }

    /// Stops starting runs; waiting runs are missed, running ones may finish.
    pub fn stop(&mut self, now: ClockTimes) {
        let now = now.clamped();
        self.advance_clock(now);
        self.stopping = true;
        for run in std::mem::take(&mut self.waiting) {
            self.miss_run(&run.planned, MissedReason::Stopping);
        }
    }
}
