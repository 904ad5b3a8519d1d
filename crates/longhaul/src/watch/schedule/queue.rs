//! Runs that wait, and whether one may start.

use super::notes::Note;
use super::{Now, Reason, RunId, Running, Schedule, Start};
use crate::watch::SECOND_US;
use crate::watch::budget::Reserved;
use crate::watch::draw::{up_to, word};
use crate::watch::jobs::Job;
use crate::watch::locks::Locks;
use std::sync::Arc;

/// So many failures in a row are chance.
const FAILURES_BORNE: u32 = 2;
const TROUBLE_LEAST_US: i64 = 60 * SECOND_US;
const TROUBLE_MOST_US: i64 = 3600 * SECOND_US;
/// Waits after refusals of a busy far end: they double up to the second.
const REFUSED_LEAST_US: i64 = SECOND_US;
const REFUSED_MOST_US: i64 = 60 * SECOND_US;

/// Who has waited longest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    since_us: i64,
    sequence: u64,
}

/// A run that is planned and has not started.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub id: RunId,
    pub job: Arc<Job>,
    pub due_us: i64,
    /// Its place among the slots; none where it was asked for, or its job has gone.
    pub slot: Option<usize>,
    /// Given up then, on the steady clock, where no next run takes its place.
    pub expires_us: Option<i64>,
    /// Not before, on the steady clock: the far end was busy.
    pub retry_us: i64,
    pub refusals: u32,
    pub asked: bool,
    /// Why it has not started yet.
    pub blocked: Reason,
}

/// A far end that failed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trouble {
    pub failures: u32,
    /// Left alone until then, on the steady clock.
    pub until_us: i64,
}

impl Waiting {
    /// When it may become able to start by time alone; locks are given back by calls.
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

    /// Puts a run that was refused back where it was, to try again a little later.
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

    /// Runs that nobody takes the place of do not wait for ever.
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

    /// Starts what may start, the longest waiting first. Heavy runs go before light ones: their time
    /// was counted when the file was checked, and there may be more light runs than there is time.
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

    /// `kept` is what older runs wait for: younger ones leave it to them.
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

    /// Out of the queue, and out of its slot.
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
