//! Changes of planned runs, for the archive.

use super::Schedule;
use crate::watch::jobs::{Job, Key};
use std::fmt;
use std::sync::Arc;

/// The unique id of a planned run.
pub type RunId = Arc<str>;

/// A run that came due or was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub id: RunId,
    pub key: Key,
    pub due_us: i64,
    /// Requested from outside, not due by the file.
    pub asked: bool,
}

/// A change of a planned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    Planned(Planned),
    Started(RunId),
    /// The server was busy; the run waits again.
    Refused(RunId),
    /// The run has a result.
    Done(RunId),
    /// The run was tried and has no result.
    Failed(RunId),
    /// The run was not tried.
    Missed(RunId, Reason),
}

/// The reason why a run was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
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

impl Reason {
    /// Returns the word in the archive and in metric labels.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::Budget => "budget",
            Reason::Locked => "locked",
            Reason::FarEndBusy => "far_end_busy",
            Reason::TargetFailing => "target_failing",
            Reason::Asleep => "asleep",
            Reason::ClockStepped => "clock_stepped",
            Reason::WaitedTooLong => "waited_too_long",
            Reason::Stopping => "stopping",
            Reason::AgentStopped => "agent_stopped",
            Reason::DiskFull => "disk_full",
            Reason::SpoolFull => "spool_full",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Budget => "the bytes of the day are spent",
            Reason::Locked => "locked longer than its interval",
            Reason::FarEndBusy => "the far end was busy longer than its interval",
            Reason::TargetFailing => "the far end keeps failing and is left alone for a while",
            Reason::Asleep => "asleep when it was due",
            Reason::ClockStepped => "the clock stepped over its time",
            Reason::WaitedTooLong => "asked for, and waited too long",
            Reason::Stopping => "the agent was stopping",
            Reason::AgentStopped => "the agent ended before it did",
            Reason::DiskFull => "the disk has no room for its result",
            Reason::SpoolFull => "more waits to be sent on than spool_bytes allows",
        })
    }
}

/// The number of runs. `planned` is always the sum of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub planned: u64,
    pub done: u64,
    pub failed: u64,
    pub missed: u64,
    pub waiting: u64,
    pub running: u64,
}

impl Schedule {
    pub(super) fn plan(&mut self, job: &Job, due_us: i64, asked: bool) -> RunId {
        self.sequence += 1;
        let id: RunId = format!("{}-{:x}-{}", self.agent, self.begun_us, self.sequence).into();
        self.tally.planned += 1;
        self.notes.push(Note::Planned(Planned {
            id: Arc::clone(&id),
            key: job.key.clone(),
            due_us,
            asked,
        }));
        id
    }

    pub(super) fn miss(&mut self, id: &RunId, reason: Reason) {
        self.tally.missed += 1;
        self.notes.push(Note::Missed(Arc::clone(id), reason));
    }
}
