//! Waiting runs, and the decision to start them.

use super::notes::Note;
use super::{Now, Reason, RunId, Running, Schedule, Start};
use crate::watch::SECOND_US;
use crate::watch::budget::Reserved;
use crate::watch::draw::{up_to, word};
use crate::watch::jobs::Job;
use crate::watch::locks::Locks;
use std::sync::Arc;

/// The number of consecutive failures of a target without consequences.
const FAILURES_BORNE: u32 = 2;
const TROUBLE_LEAST_US: i64 = 60 * SECOND_US;
const TROUBLE_MOST_US: i64 = 3600 * SECOND_US;
/// The delay after a refusal by a busy server doubles from this to [`REFUSED_MOST_US`].
const REFUSED_LEAST_US: i64 = SECOND_US;
const REFUSED_MOST_US: i64 = 60 * SECOND_US;

/// The order of waiting runs: longest wait first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    since_us: i64,
    sequence: u64,
}

/// A planned run that has not started.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub id: RunId,
    pub job: Arc<Job>,
    pub due_us: i64,
    /// Index of its slot; `None` if it was requested or its job is gone.
    pub slot: Option<usize>,
    /// The time on the steady clock at which it is given up; `None` if the next run replaces it.
    pub expires_us: Option<i64>,
    /// The earliest retry after a refusal, on the steady clock.
    pub retry_us: i64,
    pub refusals: u32,
    pub asked: bool,
    /// The reason why it has not started yet.
    pub blocked: Reason,
}

/// A target that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trouble {
    pub failures: u32,
    /// The target is skipped until this time on the steady clock.
    pub until_us: i64,
}

impl Waiting {
    /// Returns the next time at which the run may become able to start, apart from released locks.
    pub fn stirs_at(&self, now: Now) -> Option<i64> {
        let expires = self.expires_us.map(|at| now.at_steady(at));
        let retry = now.at_steady(self.retry_us.max(now.steady_us));
        let opens = match &self.job.gate {
            Some(gate) if !gate.is_open(retry) => Some(gate.opening(retry)),
            _ if self.retry_us > now.steady_us => Some(retry),
            _ => None,
        };
        expires.into_iter().chain(opens).min()
    }
}

impl Trouble {
    pub fn failed(&mut self, now: Now) {
        self.failures = self.failures.saturating_add(1);
        if let Some(beyond) = self.failures.checked_sub(FAILURES_BORNE + 1) {
            let wait = TROUBLE_LEAST_US << beyond.min(10);
            self.until_us = now.steady_us + wait.min(TROUBLE_MOST_US);
        }
    }
}

enum Verdict {
    Go(Reserved),
    Wait(Reason),
    Miss(Reason),
}

impl Schedule {
    pub(super) fn queue(
        &mut self,
        job: &Arc<Job>,
        (id, due_us): (RunId, i64),
        since_us: i64,
        slot: Option<usize>,
    ) -> Rank {
        self.sequence += 1;
        let rank = Rank {
            since_us,
            sequence: self.sequence,
        };
        let run = Waiting {
            id,
            job: Arc::clone(job),
            due_us,
            slot,
            expires_us: None,
            retry_us: 0,
            refusals: 0,
            asked: false,
            blocked: Reason::Locked,
        };
        self.waiting.insert(rank, run);
        rank
    }

    /// Puts a refused run back into the queue, to retry a little later.
    pub(super) fn requeue(&mut self, mut run: Waiting, now: Now) {
        let wait = (REFUSED_LEAST_US << run.refusals.min(8)).min(REFUSED_MOST_US);
        let chance = up_to(wait, self.seed, &[word(&run.id), u64::from(run.refusals)]);
        run.refusals += 1;
        run.retry_us = now.steady_us + wait + chance;
        run.blocked = Reason::FarEndBusy;
        self.sequence += 1;
        let slot = run.slot.map(|index| &self.slots[index]);
        let since_us = slot.and_then(|slot| slot.hungry_us);
        let rank = Rank {
            since_us: since_us.unwrap_or(now.steady_us),
            sequence: self.sequence,
        };
        if let Some(index) = run.slot {
            self.slots[index].waiting = Some(rank);
            self.slots[index].hungry_us = Some(rank.since_us);
        }
        self.waiting.insert(rank, run);
    }

    /// Gives up waiting runs whose time has expired.
    pub(super) fn give_up_old(&mut self, now: Now) {
        let old = |it: &Waiting| it.expires_us.is_some_and(|at| at <= now.steady_us);
        let ranks: Vec<Rank> = self
            .waiting
            .iter()
            .filter(|(_, it)| old(it))
            .map(|(rank, _)| *rank)
            .collect();
        for rank in ranks {
            if let Some(run) = self.waiting.remove(&rank) {
                let reason = if run.asked {
                    Reason::WaitedTooLong
                } else {
                    run.blocked
                };
                self.miss(&run.id, reason);
            }
        }
    }

    /// Starts all runs that can start, longest wait first. Heavy runs go before light ones: the
    /// file check accounts for their time, while there may be more light runs than time.
    pub(super) fn start(&mut self, now: Now) -> Vec<Start> {
        let mut started = Vec::new();
        let mut kept = Locks::default();
        let (heavy, light): (Vec<_>, Vec<_>) =
            self.waiting.iter().partition(|(_, run)| run.job.heavy);
        let all = heavy.into_iter().chain(light);
        let ranks: Vec<Rank> = all.map(|(rank, _)| *rank).collect();
        for rank in ranks {
            let verdict = self.judge(rank, now, &mut kept);
            match verdict {
                Some(Verdict::Go(reserved)) => started.extend(self.go(rank, reserved, now)),
                Some(Verdict::Miss(reason)) => {
                    if let Some(run) = self.take(rank) {
                        self.miss(&run.id, reason);
                    }
                }
                Some(Verdict::Wait(reason)) => {
                    if let Some(run) = self.waiting.get_mut(&rank) {
                        run.blocked = reason;
                    }
                }
                None => {}
            }
        }
        started
    }

    /// `kept` holds the resources that are reserved for older heavy runs.
    fn judge(&mut self, rank: Rank, now: Now, kept: &mut Locks) -> Option<Verdict> {
        let run = self.waiting.get(&rank)?;
        let job = Arc::clone(&run.job);
        if self.stopping {
            return Some(Verdict::Miss(Reason::Stopping));
        }
        let trouble = job.far.as_ref().and_then(|far| self.troubles.get(far));
        if !run.asked && trouble.is_some_and(|it| now.steady_us < it.until_us) {
            return Some(Verdict::Miss(Reason::TargetFailing));
        }
        if now.steady_us < run.retry_us {
            return Some(Verdict::Wait(Reason::FarEndBusy));
        }
        if job.gate.is_some_and(|gate| !gate.is_open(now.wall_us)) {
            return Some(Verdict::Wait(Reason::Locked));
        }
        let full = !job.heavy && self.locks.light() >= self.light_at_once;
        if full || !self.locks.are_free(&job) || !kept.are_free(&job) {
            if job.heavy {
                kept.keep(&job);
            }
            return Some(Verdict::Wait(Reason::Locked));
        }
        Some(match self.budget.reserve(&job.key.measure, job.bytes) {
            Some(reserved) => Verdict::Go(reserved),
            None => Verdict::Miss(Reason::Budget),
        })
    }

    /// Removes a run from the queue and from its slot.
    fn take(&mut self, rank: Rank) -> Option<Waiting> {
        let run = self.waiting.remove(&rank)?;
        if let Some(index) = run.slot
            && self.slots[index].waiting == Some(rank)
        {
            self.slots[index].waiting = None;
        }
        Some(run)
    }

    fn go(&mut self, rank: Rank, reserved: Reserved, now: Now) -> Option<Start> {
        let run = self.take(rank)?;
        if let Some(index) = run.slot {
            self.slots[index].hungry_us = None;
        }
        self.locks.take(&run.job);
        self.notes.push(Note::Started(Arc::clone(&run.id)));
        let start = Start {
            id: Arc::clone(&run.id),
            job: Arc::clone(&run.job),
            due_us: run.due_us,
            asked: run.asked,
        };
        let running = Running::new(run, reserved, now);
        self.running.insert(Arc::clone(&start.id), running);
        Some(start)
    }
}
