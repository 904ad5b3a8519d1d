//! The scheduler: a state machine that gets the time from its caller.
//!
//! Every run that comes due is planned and ends exactly once: done, failed, or missed with a
//! reason. Light runs run concurrently up to a limit. Heavy runs lock their hosts, interfaces and
//! links, and go first. Within each class the run that has waited longest goes first. A waiting
//! heavy run reserves its resources against younger runs, which prevents starvation.
//!
//! - [`run_queue`]: waiting runs, and the decision to start them
//! - [`schedule_notes`]: changes for the archive

mod run_queue;
mod schedule_notes;

/// The minimum difference between both clocks that counts as a step.
const MIN_STEP_US: i64 = 2 * SECOND_US;
/// A run that starts later than this after its due time is late.
const LATE_US: i64 = 5 * SECOND_US;
/// The maximum time value, which prevents overflow with hostile clocks.
const MAX_TIME_US: i64 = 1 << 60;

/// A time on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockTimes {
    /// Since 1970, UTC; may step.
    pub wall_us: i64,
    /// Since an arbitrary moment; never steps, and includes suspend.
    pub steady_us: i64,
}

impl ClockTimes {
    fn clamped(self) -> Self {
        ClockTimes {
            wall_us: self.wall_us.clamp(0, MAX_TIME_US),
            steady_us: self.steady_us.clamp(0, MAX_TIME_US),
        }
    }

    /// Returns the wall-clock time that corresponds to a steady time.
    fn wall_at_steady(self, steady_us: i64) -> i64 {
        self.wall_us.saturating_add(steady_us.saturating_sub(self.steady_us))
    }

    fn step_since(self, last: ClockTimes) -> ClockStep {
        let steady = (self.steady_us - last.steady_us).max(0);
        match self.wall_us - last.wall_us - steady {
            ahead if ahead > MIN_STEP_US => ClockStep::Forward,
            ahead if ahead < -MIN_STEP_US => ClockStep::Back,
            _ => ClockStep::None,
        }
    }
}

/// A step of the wall clock between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockStep {
    None,
    Forward,
    Back,
}

/// A run without a result after twice its maximum duration and this margin is given up.
const LOST_MARGIN_US: i64 = 60 * SECOND_US;

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The result is in the archive already.
    Done {
        sent_bytes: u64,
    },
    Failed {
        sent_bytes: u64,
    },
    /// The server is busy; nothing was sent.
    Refused,
    /// The run did not start; nothing was sent.
    NotStarted(MissedReason),
}

#[derive(Debug, Clone)]
struct RunInProgress {
    pub run: WaitingRun,
    pub reserved: BudgetReservation,
    /// The time on the steady clock at which the run is given up.
    pub lost_us: i64,
}

impl RunSchedule {
    /// Records the end of a run. Returns false if no such run is running.
    pub fn finish_run(&mut self, id: &str, outcome: AttemptOutcome, now: ClockTimes) -> bool {
        let now = now.clamped();
        self.budget.advance_to(now.wall_us);
        let Some(RunInProgress { run, reserved, .. }) = self.running.remove(id) else {
            return false;
        };
        self.locks.release(&run.planned.job);
        let sent = match outcome {
            AttemptOutcome::Done { sent_bytes } | AttemptOutcome::Failed { sent_bytes } => {
                sent_bytes
            }
            AttemptOutcome::Refused | AttemptOutcome::NotStarted(_) => 0,
        };
        self.budget.settle(&run.planned.job.key.measure, reserved, sent);
        match outcome {
            AttemptOutcome::Done { .. } => {
                self.counts.done += 1;
                self.notes.push(ScheduleNote::Done(run.planned.id));
                if let Some(far) = &run.planned.job.target {
                    self.target_backoffs.remove(far);
                }
            }
            AttemptOutcome::Failed { .. } => self.record_failure(&run, now),
            AttemptOutcome::Refused => self.handle_refusal(run, now),
            AttemptOutcome::NotStarted(reason) => self.miss_run(&run.planned, reason),
        }
        true
    }

    fn record_failure(&mut self, run: &WaitingRun, now: ClockTimes) {
        self.counts.failed += 1;
        self.notes.push(ScheduleNote::Failed(run.planned.clone()));
        if let Some(far) = &run.planned.job.target {
            self.target_backoffs.entry(Arc::clone(far)).or_default().record_failure(now);
        }
    }

    fn handle_refusal(&mut self, run: WaitingRun, now: ClockTimes) {
        let key = &run.planned.job.key;
        let replaced =
            !run.planned.requested && self.waiting.iter().any(|next| next.is_scheduled_run_of(key));
        if self.stopping {
            self.miss_run(&run.planned, MissedReason::Stopping);
        } else if replaced {
            self.miss_run(&run.planned, MissedReason::FarEndBusy);
        } else {
            self.notes.push(ScheduleNote::Refused(Arc::clone(&run.planned.id)));
            self.requeue_refused(run, now);
        }
    }

    /// Gives up runs that the runner lost, although it enforces deadlines itself.
    fn expire_lost_runs(&mut self, now: ClockTimes) {
        let lost = self.running.iter();
        let lost = lost.filter(|(_, it)| it.lost_us <= now.steady_us);
        let mut ids: Vec<RunId> = lost.map(|(id, _)| Arc::clone(id)).collect();
        ids.sort();
        for id in ids {
            self.finish_run(&id, AttemptOutcome::Failed { sent_bytes: 0 }, now);
        }
    }
}

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

#[cfg(test)]
mod tests;

pub use schedule_notes::{
    FAILED_REASON, MissedReason, RunId, ScheduleCounts, ScheduleNote, ScheduledRun, is_id_of_agent,
    is_unusual_reason,
};

use super::daily_budget::{BudgetUsage, DailyBudget};
use super::measure_jobs::{self, MeasureJob, MeshTurns};
use super::path_resources::ResourceLocks;
use super::watch_file::{CatchUpPolicy, WatchFile};
use crate::watch::SECOND_US;
use crate::watch::daily_budget::BudgetReservation;
use crate::watch::measure_jobs::JobKey;
use longhaul_store::history_store::TimeRange;
use run_queue::{TargetBackoff, WaitingRun};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// After a long gap, only the latest runs of each job are recorded one by one.
const GAP_RUNS_MAX: i64 = 100;

/// A job and its next interval.
#[derive(Debug)]
struct JobSlot {
    job: Arc<MeasureJob>,
    next_interval: i64,
    /// The due time of the run in the next interval.
    due_us: i64,
}

impl JobSlot {
    fn new(job: MeasureJob) -> JobSlot {
        JobSlot { job: Arc::new(job), next_interval: 0, due_us: 0 }
    }

    fn set_next_interval(&mut self, number: i64) {
        self.next_interval = number;
        self.due_us = self.job.due_us(number);
    }
}

/// The scheduler of one agent.
#[derive(Debug)]
pub struct RunSchedule {
    agent: Arc<str>,
    seed: u64,
    catch_up: CatchUpPolicy,
    light_at_once: u32,
    slots: Vec<JobSlot>,
    waiting: Vec<WaitingRun>,
    running: HashMap<RunId, RunInProgress>,
    locks: ResourceLocks,
    budget: DailyBudget,
    /// Targets that failed.
    target_backoffs: HashMap<Arc<str>, TargetBackoff>,
    last_times: Option<ClockTimes>,
    notes: Vec<ScheduleNote>,
    counts: ScheduleCounts,
    sequence: u64,
    /// Part of every run id, so that ids of different starts differ.
    started_us: i64,
    /// An earlier process planned all runs up to this time.
    planned_until_us: Option<i64>,
    stopping: bool,
    /// The agent's host answers heavy runs of others.
    host_is_in_use: bool,
    /// A heavy run waits for that only.
    waits_for_host: bool,
}

impl RunSchedule {
    /// Creates a schedule; the clock starts with the first call. Jitter comes from `seed`.
    pub fn new(file: &WatchFile, seed: u64) -> Self {
        RunSchedule::with_turns(file, MeshTurns::from_file(file).as_ref(), seed)
    }

    /// Like [`RunSchedule::new`], with turns of the mesh that are computed already.
    pub fn with_turns(file: &WatchFile, turns: Option<&MeshTurns>, seed: u64) -> Self {
        let mut budget = DailyBudget::default();
        budget.apply_file(file);
        RunSchedule {
            agent: file.agent.name.as_str().into(),
            seed,
            catch_up: file.agent.catch_up,
            light_at_once: file.agent.light_at_once,
            slots: measure_jobs::build_jobs(file, turns, seed)
                .into_iter()
                .map(JobSlot::new)
                .collect(),
            waiting: Vec::new(),
            running: HashMap::new(),
            locks: ResourceLocks::default(),
            budget,
            target_backoffs: HashMap::new(),
            last_times: None,
            notes: Vec::new(),
            counts: ScheduleCounts::default(),
            sequence: 0,
            started_us: 0,
            planned_until_us: None,
            stopping: false,
            host_is_in_use: false,
            waits_for_host: false,
        }
    }

    /// Continues after an earlier process: runs that have come due since are late, and `catch_up`
    /// applies. Has no effect after the first call with a time.
    #[must_use]
    pub fn resume_from(self, planned_until_us: Option<i64>) -> Self {
        RunSchedule { planned_until_us, ..self }
    }

    /// Counts the bytes that an earlier process sent today.
    #[must_use]
    pub fn with_usage(mut self, spent: &BudgetUsage) -> Self {
        self.budget.restore(spent);
        self
    }

    /// Returns the used budgets, to be stored for the next process.
    pub fn budget_usage(&self) -> &BudgetUsage {
        self.budget.usage()
    }

    /// Returns the runs that start now. Other decisions are in the notes.
    pub fn start_due(&mut self, now: ClockTimes) -> Vec<ScheduledRun> {
        let now = now.clamped();
        self.advance_clock(now);
        self.expire_lost_runs(now);
        self.start_ready_runs(now)
    }

    /// Sets whether the agent's host answers heavy runs of others. No run on a path starts then.
    pub fn set_host_in_use(&mut self, in_use: bool) {
        self.host_is_in_use = in_use;
    }

    /// Returns whether a heavy run is in progress, or waits only for runs of others on the agent's
    /// host, which therefore takes no more of them.
    pub fn has_heavy_run(&self) -> bool {
        self.waits_for_host || self.running.values().any(|it| it.run.planned.job.heavy)
    }

    /// Returns the plans and outcomes since the last call in order, all of which go to the archive.
    pub fn take_notes(&mut self) -> Vec<ScheduleNote> {
        std::mem::take(&mut self.notes)
    }

    pub fn run_counts(&self) -> ScheduleCounts {
        ScheduleCounts {
            waiting: self.waiting.len() as u64,
            running: self.running.len() as u64,
            ..self.counts
        }
    }

    /// Returns the time between the last planned run of an earlier process and the start of this
    /// one.
    pub fn off_time(&self) -> Option<TimeRange> {
        let begin_us = self.planned_until_us.filter(|at| *at < self.started_us)?;
        Some(TimeRange { begin_us, end_us: self.started_us })
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Arc<MeasureJob>> {
        self.slots.iter().map(|slot| &slot.job)
    }

    /// Advances the clock: handles clock steps and plans the runs that have come due.
    fn advance_clock(&mut self, now: ClockTimes) {
        let last = self.last_times.replace(now);
        let gap = last.map_or(ClockStep::None, |last| now.step_since(last));
        // The reason of runs that are older than the last look.
        let reason = match (last, gap) {
            (None, _) => MissedReason::AgentOff,
            (_, ClockStep::Forward) => MissedReason::ClockStepped,
            (_, ClockStep::None | ClockStep::Back) => MissedReason::Asleep,
        };
        self.budget.advance_to(now.wall_us);
        if last.is_none() {
            self.started_us = now.wall_us;
            let looked = self.planned_until_us.map_or(now.wall_us, |at| at.min(now.wall_us));
            self.reset_intervals(looked);
        } else if gap == ClockStep::Back {
            self.reset_intervals(now.wall_us);
        }
        if !self.stopping {
            self.plan_due(now, reason);
        }
    }

    /// Sets the next interval of every job to the first after `at_us`.
    fn reset_intervals(&mut self, at_us: i64) {
        for slot in &mut self.slots {
            slot.set_next_interval(slot.job.first_after(at_us));
        }
    }

    fn plan_due(&mut self, now: ClockTimes, reason: MissedReason) {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.due_us <= now.wall_us);
        let mut due: Vec<(i64, usize)> = slots.map(|(index, slot)| (slot.due_us, index)).collect();
        due.sort_unstable();
        for (_, index) in due {
            self.plan_slot(index, now, reason);
        }
    }

    /// Plans the due runs of one job: one, or several late ones after a gap.
    fn plan_slot(&mut self, index: usize, now: ClockTimes, reason: MissedReason) {
        let slot = &mut self.slots[index];
        let job = Arc::clone(&slot.job);
        let latest = job.latest_at(now.wall_us);
        let first = slot.next_interval.max(latest - GAP_RUNS_MAX + 1);
        slot.set_next_interval(latest + 1);
        let late = |due_us: i64| due_us < now.wall_us - LATE_US;
        for number in first..=latest {
            let due_us = job.due_us(number);
            let planned = self.plan_run(&job, due_us, false);
            if number < latest || (late(due_us) && self.catch_up == CatchUpPolicy::None) {
                self.miss_run(&planned, reason);
                continue;
            }
            // A waiting run is replaced by the next one of its job, which takes its place.
            let mut since_us = now.steady_us;
            if let Some(at) = self.waiting.iter().position(|it| it.is_scheduled_run_of(&job.key)) {
                let old = self.waiting.remove(at);
                since_us = old.since_us;
                let reason = if late(due_us) { reason } else { old.waits_for };
                self.miss_run(&old.planned, reason);
            }
            self.waiting.push(WaitingRun::new(planned, since_us));
        }
    }

    /// Returns the wall-clock time of the next decision, or `None` before the first call with a
    /// time.
    pub fn next_at(&self) -> Option<i64> {
        let now = self.last_times?;
        let due = self.slots.iter().map(|slot| slot.due_us).filter(|_| !self.stopping);
        let waiting = self.waiting.iter().filter_map(|it| it.next_attempt_at(now));
        let running = self.running.values().map(|it| now.wall_at_steady(it.lost_us));
        // Decisions that are due now are delayed by a millisecond.
        let soonest = now.wall_us + 1_000;
        let earliest = due.chain(waiting).chain(running).min();
        earliest.map(|at_us| at_us.max(soonest))
    }
}
