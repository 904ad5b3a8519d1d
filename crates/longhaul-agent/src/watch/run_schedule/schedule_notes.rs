//! Changes of planned runs, for the archive.

use super::RunSchedule;
use crate::watch::measure_jobs::MeasureJob;
use std::fmt;
use std::sync::Arc;

/// The unique id of a planned run.
pub type RunId = Arc<str>;

/// A run that came due or was requested.
#[derive(Debug, Clone)]
pub struct ScheduledRun {
    pub id: RunId,
    pub job: Arc<MeasureJob>,
    pub due_us: i64,
    /// Requested from outside, not due by the file.
    pub requested: bool,
}

/// A change of a planned run.
#[derive(Debug, Clone)]
pub enum ScheduleNote {
    Planned(ScheduledRun),
    Started(RunId),
    /// The server was busy; the run waits again.
    Refused(RunId),
    /// The run has a result.
    Done(RunId),
    /// The run was tried and has no result.
    Failed(RunId),
    /// The run was not tried.
    Missed(RunId, MissedReason),
}

/// The reason why a run was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MissedReason {
    /// The daily budget is used up.
    Budget,
    /// A resource was locked until the next run was due.
    Locked,
    /// The server was busy until the next run was due.
    FarEndBusy,
    /// The target has failed repeatedly and is skipped for a while.
    TargetFailing,
    /// The agent was not running, or the host was suspended.
    Asleep,
    /// The clock stepped over its due time.
    ClockStepped,
    /// The requested run waited too long.
    WaitedTooLong,
    Stopping,
    /// An earlier process planned or started it, and ended first.
    AgentStopped,
    /// The disk has no space for its result.
    DiskFull,
    /// The outbox exceeds its limit.
    SpoolFull,
}

impl MissedReason {
    /// Returns the word in the archive and in metric labels.
    pub const fn word(self) -> &'static str {
        self.word_and_text()[0]
    }

    const fn word_and_text(self) -> [&'static str; 2] {
        match self {
            MissedReason::Budget => ["budget", "the byte budget of the day is used up"],
            MissedReason::Locked => {
                ["locked", "another run used the host or link for a whole interval"]
            }
            MissedReason::FarEndBusy => {
                ["far_end_busy", "the server was busy for a whole interval"]
            }
            MissedReason::TargetFailing => {
                ["target_failing", "the server failed repeatedly and is skipped for a while"]
            }
            MissedReason::Asleep => {
                ["asleep", "the host was suspended or the agent did not run when it was due"]
            }
            MissedReason::ClockStepped => ["clock_stepped", "the clock stepped past its due time"],
            MissedReason::WaitedTooLong => {
                ["waited_too_long", "the requested run waited too long in the queue"]
            }
            MissedReason::Stopping => ["stopping", "the agent was stopping"],
            MissedReason::AgentStopped => ["agent_stopped", "the agent ended before the run"],
            MissedReason::DiskFull => ["disk_full", "the disk has no space for its result"],
            MissedReason::SpoolFull => ["spool_full", "unsent results exceed spool_bytes"],
        }
    }
}

impl fmt::Display for MissedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word_and_text()[1])
    }
}

/// The number of runs. `planned` is always the sum of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScheduleCounts {
    pub planned: u64,
    pub done: u64,
    pub failed: u64,
    pub missed: u64,
    pub waiting: u64,
    pub running: u64,
}

impl RunSchedule {
    pub(super) fn plan_run(
        &mut self,
        job: &Arc<MeasureJob>,
        due_us: i64,
        requested: bool,
    ) -> ScheduledRun {
        self.sequence += 1;
        let id = format!("{}-{:x}-{}", self.agent, self.started_us, self.sequence).into();
        self.counts.planned += 1;
        let planned = ScheduledRun { id, job: Arc::clone(job), due_us, requested };
        self.notes.push(ScheduleNote::Planned(planned.clone()));
        planned
    }

    pub(super) fn miss_run(&mut self, id: &RunId, reason: MissedReason) {
        self.counts.missed += 1;
        self.notes.push(ScheduleNote::Missed(Arc::clone(id), reason));
    }
}
