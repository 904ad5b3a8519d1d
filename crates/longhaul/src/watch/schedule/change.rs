//! What comes from outside: a new file, a run that somebody asks for, the end.

use super::{Now, Reason, RunId, Schedule, Slot};
use crate::watch::SECOND_US;
use crate::watch::file::WatchFile;
use crate::watch::jobs::{self, Job, Key, Turns};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A run that was asked for is given up after so long.
const ASKED_WAITS_US: i64 = 3600 * SECOND_US;
/// So many may wait.
const ASKED_MAX: usize = 100;

/// The id of a run that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Queued(RunId),
    /// One of this job waits already.
    Waits(RunId),
}

/// Why a run cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskError {
    /// The file has no such measurement of such a path.
    Unknown,
    /// Too many wait already.
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
    /// Asks for a run now, through the queue that all others go through. A failing target is tried
    /// all the same; budgets and locks hold.
    pub fn ask(&mut self, key: &Key, now: Now) -> Result<Asked, AskError> {
        let slot = self.slots.iter().find(|slot| slot.job.key == *key);
        let job = Arc::clone(&slot.ok_or(AskError::Unknown)?.job);
        self.ask_once(&job, now)
    }

    /// The same for a job that the file does not have.
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
            // In a mesh it has its turn like any other.
            let turn = run.job.gate.map_or(0, |gate| 2 * gate.cycle_us);
            run.expires_us = Some(now.steady_us + turn.max(ASKED_WAITS_US));
        }
        Ok(Asked::Queued(id))
    }

    /// Goes on with a new file. What runs or waits goes on as it was planned, even if its job is
    /// no more.
    pub fn reload(&mut self, file: &WatchFile, now: Now) {
        let turns = Turns::of(file);
        self.reload_with(file, turns.as_ref(), now);
    }

    /// The same, where the turns of the mesh are known already.
    pub fn reload_with(&mut self, file: &WatchFile, turns: Option<&Turns>, now: Now) {
        let now = now.bounded();
        // What came due under the old file is planned under it.
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

    /// Nothing starts any more; what waits is missed, what runs may end.
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
