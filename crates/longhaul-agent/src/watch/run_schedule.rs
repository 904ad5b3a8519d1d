//! The scheduler: a state machine that gets the time from its caller.
//!
//! Every run that comes due is planned and ends exactly once: done, failed, or missed with a
//! reason. Light runs run concurrently up to a limit. Heavy runs lock their hosts, interfaces and
//! links, and go first. Within each class the run that has waited longest goes first. A waiting
//! heavy run reserves its resources against younger runs, which prevents starvation.
//!
//! - [`schedule_clock`]: wall clock and steady clock
//! - [`run_queue`]: waiting runs, and the decision to start them
//! - [`running_runs`]: running runs and their end
//! - [`schedule_notes`]: changes for the archive
//! - [`schedule_requests`]: reload, requested runs, shutdown

mod run_queue;
mod running_runs;
mod schedule_clock;
mod schedule_notes;
mod schedule_requests;
#[cfg(test)]
mod tests;

pub use running_runs::AttemptOutcome;
pub use schedule_clock::ClockTimes;
pub use schedule_notes::{MissedReason, RunId, ScheduleCounts, ScheduleNote, ScheduledRun};
pub use schedule_requests::{RequestedRun, RunRequestError};

use super::daily_budget::{BudgetUsage, DailyBudget};
use super::measure_jobs::{self, MeasureJob, MeshTurns};
use super::resource_locks::ResourceLocks;
use super::watch_file::{CatchUpPolicy, WatchFile};
use run_queue::{TargetBackoff, WaitingRun};
use running_runs::RunInProgress;
use schedule_clock::{ClockStep, LATE_US};
use std::collections::HashMap;
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

    pub fn jobs(&self) -> impl Iterator<Item = &Arc<MeasureJob>> {
        self.slots.iter().map(|slot| &slot.job)
    }

    /// Advances the clock: handles clock steps and plans the runs that have come due.
    fn advance_clock(&mut self, now: ClockTimes) {
        let last = self.last_times.replace(now);
        let gap = last.map_or(ClockStep::None, |last| now.step_since(last));
        self.budget.advance_to(now.wall_us);
        if last.is_none() {
            self.started_us = now.wall_us;
            let looked = self.planned_until_us.map_or(now.wall_us, |at| at.min(now.wall_us));
            self.reset_intervals(looked);
        } else if gap == ClockStep::Back {
            self.reset_intervals(now.wall_us);
        }
        if !self.stopping {
            self.plan_due(now, gap);
        }
    }

    /// Sets the next interval of every job to the first after `at_us`.
    fn reset_intervals(&mut self, at_us: i64) {
        for slot in &mut self.slots {
            slot.set_next_interval(slot.job.first_after(at_us));
        }
    }

    fn plan_due(&mut self, now: ClockTimes, gap: ClockStep) {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.due_us <= now.wall_us);
        let mut due: Vec<(i64, usize)> = slots.map(|(index, slot)| (slot.due_us, index)).collect();
        due.sort_unstable();
        for (_, index) in due {
            self.plan_slot(index, now, gap);
        }
    }

    /// Plans the due runs of one job: one, or several late ones after a gap.
    fn plan_slot(&mut self, index: usize, now: ClockTimes, gap: ClockStep) {
        let slot = &mut self.slots[index];
        let job = Arc::clone(&slot.job);
        let latest = job.latest_at(now.wall_us);
        let first = slot.next_interval.max(latest - GAP_RUNS_MAX + 1);
        slot.set_next_interval(latest + 1);
        let reason = match gap {
            ClockStep::Forward => MissedReason::ClockStepped,
            ClockStep::None | ClockStep::Back => MissedReason::Asleep,
        };
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
