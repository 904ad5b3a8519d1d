//! Changes of planned runs, for the archive.

use super::RunSchedule;
use crate::watch::measure_jobs::MeasureJob;
use longhaul_model::serde_name::name_variant;
use serde::Serialize;
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
    Failed(ScheduledRun),
    /// The run was not tried.
    Missed(ScheduledRun, MissedReason),
}

/// The reason why a run was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedReason {
    /// The daily budget is used up.
    Budget,
    /// A resource was locked until the next run was due.
    Locked,
    /// The server was busy until the next run was due.
    FarEndBusy,
    /// The target has failed repeatedly and is skipped for a while.
    TargetFailing,
    /// The host was suspended.
    Asleep,
    /// The agent was not running.
    AgentOff,
    /// The clock stepped over its due time.
    ClockStepped,
    /// The requested run waited too long.
    WaitedTooLong,
    Stopping,
    /// An earlier process planned or started it, and ended first.
    AgentStopped,
    /// The disk has no space for its result.
    DiskFull,
}

impl MissedReason {
    /// Returns the word in the archive and in metric labels.
    pub fn word(self) -> &'static str {
        name_variant(&self)
    }
}

/// The reason in the archive of a run that was tried and gave no result.
pub const FAILED_REASON: &str = "failed";

/// Returns whether an operator should look after runs that were missed for this reason. Waiting for
/// other runs, and an agent or a host that was off, are usual; words of newer agents are not.
pub fn is_unusual_reason(word: &str) -> bool {
    let usual = [
        MissedReason::Locked,
        MissedReason::Asleep,
        MissedReason::AgentOff,
        MissedReason::Stopping,
        MissedReason::AgentStopped,
    ];
    usual.iter().all(|it| it.word() != word)
}

impl fmt::Display for MissedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MissedReason::Budget => "the byte budget of the day is used up",
            MissedReason::Locked => "another run used the host or link for a whole interval",
            MissedReason::FarEndBusy => "the server was busy for a whole interval",
            MissedReason::TargetFailing => {
                "the server failed repeatedly and is skipped for a while"
            }
            MissedReason::Asleep => "the host was suspended when it was due",
            MissedReason::AgentOff => "the agent was not running when it was due",
            MissedReason::ClockStepped => "the clock stepped past its due time",
            MissedReason::WaitedTooLong => "the requested run waited too long in the queue",
            MissedReason::Stopping => "the agent was stopping",
            MissedReason::AgentStopped => "the agent ended before the run",
            MissedReason::DiskFull => "the disk has no space for its result",
        })
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

/// Returns whether the agent's schedule made this id: name, start time, sequence number.
pub fn is_id_of_agent(id: &str, agent: &str) -> bool {
    let rest = id.strip_prefix(agent).and_then(|it| it.strip_prefix('-'));
    let parts = rest.and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(begun, number)| {
        !begun.is_empty()
            && !number.is_empty()
            && begun.bytes().all(|it| it.is_ascii_hexdigit())
            && number.bytes().all(|it| it.is_ascii_digit())
    })
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

    pub(super) fn miss_run(&mut self, run: &ScheduledRun, reason: MissedReason) {
        self.counts.missed += 1;
        self.notes.push(ScheduleNote::Missed(run.clone(), reason));
    }
}
