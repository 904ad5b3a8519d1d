//! Running runs and their end.

use super::run_queue::WaitingRun;
use super::schedule_notes::ScheduleNote;
use super::{ClockTimes, MissedReason, RunId, RunSchedule};
use crate::watch::SECOND_US;
use crate::watch::daily_budget::BudgetReservation;
use std::sync::Arc;

/// A run without a result after twice its maximum duration and this margin is given up.
pub(super) const LOST_MARGIN_US: i64 = 60 * SECOND_US;

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
pub(super) struct RunInProgress {
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
    pub(super) fn expire_lost_runs(&mut self, now: ClockTimes) {
        let lost = self.running.iter();
        let lost = lost.filter(|(_, it)| it.lost_us <= now.steady_us);
        let mut ids: Vec<RunId> = lost.map(|(id, _)| Arc::clone(id)).collect();
        ids.sort();
        for id in ids {
            self.finish_run(&id, AttemptOutcome::Failed { sent_bytes: 0 }, now);
        }
    }
}
