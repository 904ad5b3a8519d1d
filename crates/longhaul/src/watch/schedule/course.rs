//! Running runs and their end.

use super::notes::Note;
use super::queue::Waiting;
use super::{Now, Reason, RunId, Schedule};
use crate::watch::SECOND_US;
use crate::watch::budget::Reserved;
use crate::watch::jobs::{Job, Key};
use std::sync::Arc;

/// A run without a result after twice its maximum duration and this margin is given up.
const LOST_US: i64 = 60 * SECOND_US;

/// A run to start now.
#[derive(Debug, Clone)]
pub struct Start {
    pub id: RunId,
    pub job: Arc<Job>,
    pub due_us: i64,
    pub asked: bool,
}

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
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
    NotStarted(Reason),
}

#[derive(Debug, Clone)]
pub(super) struct Running {
    run: Waiting,
    reserved: Reserved,
    /// The time on the steady clock at which the run is given up.
    pub lost_us: i64,
}

impl Running {
    pub fn new(run: Waiting, reserved: Reserved, now: Now) -> Self {
        let lost_us = now.steady_us + 2 * run.job.lasts_us + LOST_US;
        Running {
            run,
            reserved,
            lost_us,
        }
    }

    pub fn key(&self) -> &Key {
        &self.run.job.key
    }

    pub fn slot(&mut self) -> &mut Option<usize> {
        &mut self.run.slot
    }
}

impl Schedule {
    /// Records the end of a run. Returns false if no such run is running.
    pub fn finished(&mut self, id: &str, outcome: Outcome, now: Now) -> bool {
        let now = now.bounded();
        self.budget.at(now.wall_us);
        let Some(Running { run, reserved, .. }) = self.running.remove(id) else {
            return false;
        };
        self.locks.give_back(&run.job);
        let sent = match outcome {
            Outcome::Done { sent_bytes } | Outcome::Failed { sent_bytes } => sent_bytes,
            Outcome::Refused | Outcome::NotStarted(_) => 0,
        };
        self.budget.settle(&run.job.key.measure, reserved, sent);
        match outcome {
            Outcome::Done { .. } => {
                self.tally.done += 1;
                self.notes.push(Note::Done(run.id));
                if let Some(far) = &run.job.far {
                    self.troubles.remove(far);
                }
            }
            Outcome::Failed { .. } => self.fail(&run, now),
            Outcome::Refused => self.refused(run, now),
            Outcome::NotStarted(reason) => self.miss(&run.id, reason),
        }
        true
    }

    fn fail(&mut self, run: &Waiting, now: Now) {
        self.tally.failed += 1;
        self.notes.push(Note::Failed(Arc::clone(&run.id)));
        if let Some(far) = &run.job.far {
            self.troubles
                .entry(Arc::clone(far))
                .or_default()
                .failed(now);
        }
    }

    fn refused(&mut self, run: Waiting, now: Now) {
        let replaced = run
            .slot
            .is_some_and(|index| self.slots[index].waiting.is_some());
        if self.stopping {
            self.miss(&run.id, Reason::Stopping);
        } else if replaced {
            self.miss(&run.id, Reason::FarEndBusy);
        } else {
            self.notes.push(Note::Refused(Arc::clone(&run.id)));
            self.requeue(run, now);
        }
    }

    /// Gives up runs that the runner lost, although it enforces deadlines itself.
    pub(super) fn give_up_lost(&mut self, now: Now) {
        let lost = self.running.iter();
        let lost = lost.filter(|(_, it)| it.lost_us <= now.steady_us);
        let mut ids: Vec<RunId> = lost.map(|(id, _)| Arc::clone(id)).collect();
        ids.sort();
        for id in ids {
            self.finished(&id, Outcome::Failed { sent_bytes: 0 }, now);
        }
    }
}
