//! The planned runs that have not ended. Passes decisions of the schedule on to the archive, the
//! page and the log.

use super::agent_log::AgentLog;
use super::archive_writer::{ArchiveWriter, PlanUpdate};
use super::shared_state::{LiveUpdate, SharedState};
use crate::watch::measure_jobs::JobKey;
use crate::watch::run_schedule::{MissedReason, ScheduleNote, ScheduledRun};
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{PlannedOutcome, PlannedRun};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The reason in the archive of a run that was tried and gave no result.
pub const FAILED_REASON: &str = "failed";

/// Planned runs that have not ended.
#[derive(Debug, Default)]
pub struct PendingRuns {
    open: HashMap<String, (JobKey, PlannedRun)>,
}

impl PendingRuns {
    /// Records the decisions of the schedule.
    pub fn record_notes(
        &mut self,
        notes: Vec<ScheduleNote>,
        state: &SharedState,
        writer: &ArchiveWriter,
        log: AgentLog,
    ) {
        let mut noted = Vec::new();
        let mut missed: BTreeMap<(JobKey, MissedReason), usize> = BTreeMap::new();
        for note in notes {
            match note {
                ScheduleNote::Planned(planned) => {
                    let row = build_planned_row(&planned);
                    noted.push(PlanUpdate::Planned(row.clone()));
                    publish_planned_run(state, row.clone());
                    self.open.insert(row.id.clone(), (planned.job.key.clone(), row));
                }
                // Storing the result has settled the planned run.
                ScheduleNote::Done(id) => drop(self.open.remove(&*id)),
                ScheduleNote::Failed(id) => {
                    noted.extend(self.end_run(&id, FAILED_REASON, state).map(|(_, note)| note));
                }
                ScheduleNote::Missed(id, reason) => {
                    *state.counters.write().missed.entry(reason.word()).or_insert(0) += 1;
                    if let Some((key, note)) = self.end_run(&id, reason.word(), state) {
                        noted.push(note);
                        *missed.entry((key, reason)).or_insert(0) += 1;
                    }
                }
                ScheduleNote::Started(_) | ScheduleNote::Refused(_) => {}
            }
        }
        for ((key, reason), runs) in missed {
            log.runs_missed(&key, runs, reason.word(), &reason.to_string());
        }
        if !noted.is_empty() {
            writer.queue_updates(noted);
        }
    }

    fn end_run(
        &mut self,
        id: &str,
        reason: &str,
        state: &SharedState,
    ) -> Option<(JobKey, PlanUpdate)> {
        let (key, row) = self.open.remove(id)?;
        let outcome = PlannedOutcome::Missed { reason: reason.to_owned() };
        publish_planned_run(state, PlannedRun { outcome: Some(outcome.clone()), ..row });
        Some((key, PlanUpdate::Ended(id.to_owned(), outcome)))
    }
}

fn publish_planned_run(state: &SharedState, row: PlannedRun) {
    // Sending fails if there is no subscriber.
    let _ = state.updates.send(LiveUpdate::Planned(Arc::new(row)));
}

fn build_planned_row(planned: &ScheduledRun) -> PlannedRun {
    let JobKey { measure, from, to } = &planned.job.key;
    // An audit concerns one host, so it has no pair.
    let pair = (from != to).then(|| HostPair { from: from.to_string(), to: to.to_string() });
    PlannedRun {
        id: planned.id.to_string(),
        due_us: planned.due_us,
        measurement: measure.to_string(),
        pair,
        outcome: None,
    }
}
