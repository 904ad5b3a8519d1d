//! Which run starts when: a state machine that is told the time.
//!
//! Every run that comes due is planned, and ends exactly once: done, failed, or missed for a reason.
//! Light runs go side by side, up to a number; heavy ones have their hosts, interfaces and links to
//! themselves, and go first. Of each kind the one that has waited longest goes first; a heavy one
//! keeps what it waits for from younger ones, so that nothing starves.
//!
//! - [`clock`]: two clocks, and what their difference tells
//! - [`queue`]: runs that wait, and whether they may start
//! - [`course`]: runs under way, and how they end
//! - [`notes`]: what the archive is told
//! - [`change`]: a new file, runs that are asked for, the end

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

/// Of a long gap only the latest runs of each job are told one by one.
const GAP_RUNS_MAX: i64 = 100;

/// A job, and the interval that is planned next.
#[derive(Debug)]
struct Slot {
    job: Arc<Job>,
    next: i64,
    /// Its run that waits.
    waiting: Option<Rank>,
    /// Since when it has not had a run, on the steady clock.
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
    /// When each job is due next.
    agenda: BinaryHeap<Reverse<(i64, usize)>>,
    waiting: BTreeMap<Rank, Waiting>,
    running: HashMap<RunId, Running>,
    locks: Locks,
    budget: Budget,
    /// Far ends that failed.
    troubles: HashMap<Arc<str>, Trouble>,
    clock: Clock,
    notes: Vec<Note>,
    tally: Tally,
    sequence: u64,
    /// Part of every id, so that those of an earlier start differ.
    begun_us: i64,
    /// Until then an earlier agent has planned everything.
    looked_us: Option<i64>,
    stopping: bool,
}

impl Schedule {
    /// A schedule that has not seen the time yet. Jitter comes from `seed`.
    pub fn new(file: &WatchFile, seed: u64) -> Self {
        Schedule::with_turns(file, Turns::of(file).as_ref(), seed)
    }

    /// The same, where the turns of the mesh are known already.
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

    /// Goes on where an earlier agent ended: what has come due since is late, and the rule of the
    /// file for late runs holds. Means nothing after the first look at the time.
    #[must_use]
    pub fn going_on_from(self, looked_us: Option<i64>) -> Self {
        Schedule { looked_us, ..self }
    }

    /// Counts what an earlier agent has sent today.
    #[must_use]
    pub fn having_spent(mut self, spent: &Spent) -> Self {
        self.budget.go_on(spent);
        self
    }

    /// What the next agent is to count.
    pub fn spent(&self) -> Spent {
        self.budget.to_keep()
    }

    /// Runs that start now. What else was decided is in the notes.
    pub fn due(&mut self, now: Now) -> Vec<Start> {
        let now = now.bounded();
        self.see(now);
        self.give_up_lost(now);
        self.give_up_old(now);
        self.start(now)
    }

    /// What was planned and settled since the last call, in order; the archive is told all of it.
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

    /// Bytes sent and set aside since midnight, UTC.
    pub fn bytes_today(&self) -> u64 {
        self.budget.spent()
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.slots.iter().map(|slot| &slot.job)
    }

    /// Takes the time in: its gaps, and the runs that have come due.
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

    /// Every job's next interval is the first after `at_us`.
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

    /// Plans what one job has come to owe: one run, or after a gap some that are late.
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
            // A run that still waits makes room for the next one of its kind.
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

    /// When there is something to decide next, by the wall clock; nothing is planned before the
    /// first look at the time.
    pub fn next_at(&self) -> Option<i64> {
        let now = self.clock.last()?;
        let due = self.agenda.peek().map(|Reverse((due_us, _))| *due_us);
        let due = due.filter(|_| !self.stopping);
        let waiting = self.waiting.values().filter_map(|it| it.stirs_at(now));
        let running = self.running.values().map(|it| now.at_steady(it.lost_us));
        // A decision that had to wait for this very moment comes a millisecond later.
        let soonest = now.wall_us + 1_000;
        let earliest = due.into_iter().chain(waiting).chain(running).min();
        earliest.map(|at_us| at_us.max(soonest))
    }
}
