//! The scheduler: a state machine that gets the time from its caller.
//!
//! Every run that comes due is planned and ends exactly once: done, failed, or missed with a
//! reason. Light runs run concurrently up to a limit. Heavy runs lock their hosts, interfaces and
//! links, and go first. Within each class the run that has waited longest goes first. A waiting
//! heavy run reserves its resources against younger runs, which prevents starvation.
//!
//! - [`clock`]: wall clock and steady clock
//! - [`queue`]: waiting runs, and the decision to start them
//! - [`course`]: running runs and their end
//! - [`notes`]: changes for the archive
//! - [`change`]: reload, requested runs, shutdown

mod change;
mod clock;
mod course;
mod notes;
mod queue;
#[cfg(test)]
mod tests;

pub use change::{AskError, Asked};
pub use clock::Now;
pub use course::{Outcome, Start};
pub use notes::{Note, Planned, Reason, RunId, Tally};

use super::budget::{Budget, Spent};
use super::file::{CatchUp, WatchFile};
use super::jobs::{self, Job, Turns};
use super::locks::Locks;
use clock::{Clock, Gap, LATE_US};
use course::Running;
use queue::{Rank, Trouble, Waiting};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

/// After a long gap, only the latest runs of each job are recorded one by one.
const GAP_RUNS_MAX: i64 = 100;

/// A job and its next interval.
#[derive(Debug)]
struct Slot {
    job: Arc<Job>,
    next: i64,
    /// The waiting run of this job.
    waiting: Option<Rank>,
    /// The time on the steady clock since when a run has been due.
    hungry_us: Option<i64>,
}

/// The scheduler of one agent.
#[derive(Debug)]
pub struct Schedule {
    agent: Arc<str>,
    seed: u64,
    catch_up: CatchUp,
    light_at_once: u32,
    slots: Vec<Slot>,
    /// The next due time of each job.
    agenda: BinaryHeap<Reverse<(i64, usize)>>,
    waiting: BTreeMap<Rank, Waiting>,
    running: HashMap<RunId, Running>,
    locks: Locks,
    budget: Budget,
    /// Targets that failed.
    troubles: HashMap<Arc<str>, Trouble>,
    clock: Clock,
    notes: Vec<Note>,
    tally: Tally,
    sequence: u64,
    /// Part of every run id, so that ids of different starts differ.
    begun_us: i64,
    /// An earlier process planned all runs up to this time.
    looked_us: Option<i64>,
    stopping: bool,
}

impl Schedule {
    /// Creates a schedule; the clock starts with the first call. Jitter comes from `seed`.
    pub fn new(file: &WatchFile, seed: u64) -> Self {
        Schedule::with_turns(file, Turns::of(file).as_ref(), seed)
    }

    /// Like [`Schedule::new`], with turns of the mesh that are computed already.
    pub fn with_turns(file: &WatchFile, turns: Option<&Turns>, seed: u64) -> Self {
        let slot = |job| Slot {
            job: Arc::new(job),
            next: 0,
            waiting: None,
            hungry_us: None,
        };
        let mut budget = Budget::default();
        budget.follow(file);
        Schedule {
            agent: file.agent.name.as_str().into(),
            seed,
            catch_up: file.agent.catch_up,
            light_at_once: file.agent.light_at_once,
            slots: jobs::jobs(file, turns, seed)
                .into_iter()
                .map(slot)
                .collect(),
            agenda: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            running: HashMap::new(),
            locks: Locks::default(),
            budget,
            troubles: HashMap::new(),
            clock: Clock::default(),
            notes: Vec::new(),
            tally: Tally::default(),
            sequence: 0,
            begun_us: 0,
            looked_us: None,
            stopping: false,
        }
    }

    /// Continues after an earlier process: runs that have come due since are late, and `catch_up`
    /// applies. Has no effect after the first call with a time.
    #[must_use]
    pub fn going_on_from(self, looked_us: Option<i64>) -> Self {
        Schedule { looked_us, ..self }
    }

    /// Counts the bytes that an earlier process sent today.
    #[must_use]
    pub fn having_spent(mut self, spent: &Spent) -> Self {
        self.budget.go_on(spent);
        self
    }

    /// Returns the used budgets, to be stored for the next process.
    pub fn spent(&self) -> Spent {
        self.budget.to_keep()
    }

    /// Returns the runs that start now. Other decisions are in the notes.
    pub fn due(&mut self, now: Now) -> Vec<Start> {
        let now = now.bounded();
        self.see(now);
        self.give_up_lost(now);
        self.give_up_old(now);
        self.start(now)
    }

    /// Returns the plans and outcomes since the last call in order, all of which go to the archive.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    pub fn tally(&self) -> Tally {
        Tally {
            waiting: self.waiting.len() as u64,
            running: self.running.len() as u64,
            ..self.tally
        }
    }

    /// Returns the bytes sent and reserved since midnight, UTC.
    pub fn bytes_today(&self) -> u64 {
        self.budget.spent()
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.slots.iter().map(|slot| &slot.job)
    }

    /// Advances the clock: handles clock steps and plans the runs that have come due.
    fn see(&mut self, now: Now) {
        let first = self.clock.is_new();
        let gap = self.clock.see(now);
        self.budget.at(now.wall_us);
        if first {
            self.begun_us = now.wall_us;
        }
        if first {
            let looked = self.looked_us.map_or(now.wall_us, |at| at.min(now.wall_us));
            self.look_ahead(looked);
        } else if gap == Gap::SetBack {
            self.look_ahead(now.wall_us);
        }
        if !self.stopping {
            self.plan_due(now, gap);
        }
    }

    /// Sets the next interval of every job to the first after `at_us`.
    fn look_ahead(&mut self, at_us: i64) {
        for slot in &mut self.slots {
            slot.next = slot.job.first_after(at_us);
        }
        self.lay_out();
    }

    fn lay_out(&mut self) {
        let due = |(index, slot): (usize, &Slot)| Reverse((slot.job.due_us(slot.next), index));
        self.agenda = self.slots.iter().enumerate().map(due).collect();
    }

    fn plan_due(&mut self, now: Now, gap: Gap) {
        while let Some(Reverse((due_us, index))) = self.agenda.peek().copied() {
            if due_us > now.wall_us {
                return;
            }
            self.agenda.pop();
            self.plan_slot(index, now, gap);
            let slot = &self.slots[index];
            let next = slot.job.due_us(slot.next);
            self.agenda.push(Reverse((next, index)));
        }
    }

    /// Plans the due runs of one job: one, or several late ones after a gap.
    fn plan_slot(&mut self, index: usize, now: Now, gap: Gap) {
        let job = Arc::clone(&self.slots[index].job);
        let latest = job.latest_at(now.wall_us);
        let first = self.slots[index].next.max(latest - GAP_RUNS_MAX + 1);
        self.slots[index].next = latest + 1;
        let reason = match gap {
            Gap::SetForward => Reason::ClockStepped,
            Gap::None | Gap::SetBack => Reason::Asleep,
        };
        let late = |due_us: i64| due_us < now.wall_us - LATE_US;
        for number in first..=latest {
            let due_us = job.due_us(number);
            let id = self.plan(&job, due_us, false);
            if number < latest || (late(due_us) && self.catch_up == CatchUp::None) {
                self.miss(&id, reason);
                continue;
            }
            // A waiting run is replaced by the next one of its job.
            if let Some(rank) = self.slots[index].waiting.take()
                && let Some(old) = self.waiting.remove(&rank)
            {
                let reason = if late(due_us) { reason } else { old.blocked };
                self.miss(&old.id, reason);
            }
            let since_us = *self.slots[index].hungry_us.get_or_insert(now.steady_us);
            let rank = self.queue(&job, (id, due_us), since_us, Some(index));
            self.slots[index].waiting = Some(rank);
        }
    }

    /// Returns the wall-clock time of the next decision, or `None` before the first call with a
    /// time.
    pub fn next_at(&self) -> Option<i64> {
        let now = self.clock.last()?;
        let due = self.agenda.peek().map(|Reverse((due_us, _))| *due_us);
        let due = due.filter(|_| !self.stopping);
        let waiting = self.waiting.values().filter_map(|it| it.stirs_at(now));
        let running = self.running.values().map(|it| now.at_steady(it.lost_us));
        // Decisions that are due now are delayed by a millisecond.
        let soonest = now.wall_us + 1_000;
        let earliest = due.into_iter().chain(waiting).chain(running).min();
        earliest.map(|at_us| at_us.max(soonest))
    }
}
