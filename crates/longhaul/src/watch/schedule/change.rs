//! Requests from outside: reload, requested runs, shutdown.

use super::{Now, Reason, RunId, Schedule, Slot};
use crate::watch::SECOND_US;
use crate::watch::file::WatchFile;
use crate::watch::jobs::{self, Job, Key, Turns};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The maximum time that a requested run waits.
const ASKED_WAITS_US: i64 = 3600 * SECOND_US;
/// The maximum number of waiting requested runs.
const ASKED_MAX: usize = 100;

/// The id of a requested run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Queued(RunId),
    /// A requested run of this job is waiting already.
    Waits(RunId),
}

/// The reason why a run request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskError {
    /// The file has no such measurement of this path.
    Unknown,
    /// Too many requested runs are waiting.
    Full,
    Stopping,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AskError::Unknown => "the watch file has no such measurement of this path",
            AskError::Full => "too many runs that were asked for wait already",
            AskError::Stopping => "the agent is stopping",
        })
    }
}

impl std::error::Error for AskError {}

impl Schedule {
    /// Requests a run now, through the same queue as all others. A failing target does not prevent
    /// it; budgets and locks apply.
    pub fn ask(&mut self, key: &Key, now: Now) -> Result<Asked, AskError> {
        let slot = self.slots.iter().find(|slot| slot.job.key == *key);
        let job = Arc::clone(&slot.ok_or(AskError::Unknown)?.job);
        self.ask_once(&job, now)
    }

    /// Like [`Schedule::ask`], for a job that the file does not contain.
    pub fn ask_once(&mut self, job: &Arc<Job>, now: Now) -> Result<Asked, AskError> {
        let now = now.bounded();
        self.see(now);
        if self.stopping {
            return Err(AskError::Stopping);
        }
        let mut asked = self.waiting.values().filter(|it| it.asked);
        if let Some(waits) = asked.find(|it| it.job.key == job.key) {
            return Ok(Asked::Waits(Arc::clone(&waits.id)));
        }
        if self.waiting.values().filter(|it| it.asked).count() >= ASKED_MAX {
            return Err(AskError::Full);
        }
        let id = self.plan(job, now.wall_us, true);
        let rank = self.queue(job, (Arc::clone(&id), now.wall_us), now.steady_us, None);
        if let Some(run) = self.waiting.get_mut(&rank) {
            run.asked = true;
            // In a mesh it waits for the turn of its pair.
            let turn = run.job.gate.map_or(0, |gate| 2 * gate.cycle_us);
            run.expires_us = Some(now.steady_us + turn.max(ASKED_WAITS_US));
        }
        Ok(Asked::Queued(id))
    }

    /// Applies a new file. Running and waiting runs continue as planned, even if their job is gone.
    pub fn reload(&mut self, file: &WatchFile, now: Now) {
        let turns = Turns::of(file);
        self.reload_with(file, turns.as_ref(), now);
    }

    /// Like [`Schedule::reload`], with turns of the mesh that are computed already.
    pub fn reload_with(&mut self, file: &WatchFile, turns: Option<&Turns>, now: Now) {
        let now = now.bounded();
        // Runs that came due under the old file are planned under it.
        self.see(now);
        self.agent = file.agent.name.as_str().into();
        self.catch_up = file.agent.catch_up;
        self.light_at_once = file.agent.light_at_once;
        self.budget.follow(file);
        let mut old: HashMap<Key, Slot> = std::mem::take(&mut self.slots)
            .into_iter()
            .map(|slot| (slot.job.key.clone(), slot))
            .collect();
        let places: HashMap<Key, usize> = jobs::jobs(file, turns, self.seed)
            .into_iter()
            .enumerate()
            .map(|(index, job)| {
                let kept = old.remove(&job.key);
                let key = job.key.clone();
                self.slots.push(Slot {
                    next: job.first_after(now.wall_us),
                    waiting: kept.as_ref().and_then(|slot| slot.waiting),
                    hungry_us: kept.and_then(|slot| slot.hungry_us),
                    job: Arc::new(job),
                });
                (key, index)
            })
            .collect();
        for run in self.waiting.values_mut().filter(|run| run.slot.is_some()) {
            run.slot = places.get(&run.job.key).copied();
            if run.slot.is_none() {
                run.expires_us = Some(now.steady_us + run.job.every_us);
            }
        }
        for run in self.running.values_mut() {
            let key = run.key().clone();
            let slot = run.slot();
            *slot = slot.and_then(|_| places.get(&key).copied());
        }
        self.lay_out();
    }

    /// Stops starting runs; waiting runs are missed, running ones may finish.
    pub fn stop(&mut self, now: Now) {
        let now = now.bounded();
        self.see(now);
        self.stopping = true;
        let waiting = std::mem::take(&mut self.waiting);
        for run in waiting.into_values() {
            self.miss(&run.id, Reason::Stopping);
        }
        for slot in &mut self.slots {
            slot.waiting = None;
        }
    }
}
