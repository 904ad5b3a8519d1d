//! What the archive is told: which runs were planned, and how each ended.

use super::Schedule;
use crate::watch::jobs::{Job, Key};
use std::fmt;
use std::sync::Arc;

/// Name of one planned run, never used again.
pub type RunId = Arc<str>;

/// A run that has come due, or was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub id: RunId,
    pub key: Key,
    pub due_us: i64,
    /// By somebody, and not by the file.
    pub asked: bool,
}

/// One thing that happened to one planned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    Planned(Planned),
    Started(RunId),
    /// The far end was busy; it waits again.
    Refused(RunId),
    /// There is a result.
    Done(RunId),
    /// It was tried, and there is no result.
    Failed(RunId),
    /// It was not tried.
    Missed(RunId, Reason),
}

/// Why a run was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The bytes of the day are spent.
    Budget,
    /// What it needs was in use until the next run was due.
    Locked,
    /// The far end was busy until then.
    FarEndBusy,
    /// The far end has failed again and again, and is left alone for a while.
    TargetFailing,
    /// Nobody looked when it was due.
    Asleep,
    /// The clock jumped over its time.
    ClockStepped,
    /// It was asked for, and waited too long.
    WaitedTooLong,
    Stopping,
    /// An earlier agent had begun it, or was about to, and ended before it did.
    AgentStopped,
    /// There was no room for its result.
    DiskFull,
    /// More waits to be sent on than the file allows.
    SpoolFull,
}

impl Reason {
    /// The word in the archive and in labels.
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

/// How many runs there were. Planned is always the sum of the others.
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
