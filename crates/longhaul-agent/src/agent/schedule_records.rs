//! Passes decisions of the schedule on to the archive, the page and the log.

use super::agent_log::AgentLog;
use super::archive_writer::{ArchiveWriter, PlanUpdate};
use super::shared_state::{LiveUpdate, SharedState};
use crate::watch::measure_jobs::JobKey;
use crate::watch::run_schedule::{MissedReason, ScheduleNote, ScheduledRun};
use longhaul_model::report::v1::HostPair;
use longhaul_store::history_store::{PlannedOutcome, PlannedRun};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason in the archive of a run that was tried and gave no result.
const FAILED_REASON: &str = "failed";

/// Records the decisions of the schedule.
pub fn record_notes(
    notes: Vec<ScheduleNote>,
    state: &SharedState,
    writer: &ArchiveWriter,
    log: AgentLog,
) {
    let mut noted = Vec::new();
    let mut missed: BTreeMap<(JobKey, MissedReason), usize> = BTreeMap::new();
    for note in notes {
        let (run, reason) = match note {
            ScheduleNote::Planned(run) => (run, None),
            ScheduleNote::Failed(run) => (run, Some(FAILED_REASON)),
            ScheduleNote::Missed(run, reason) => {
                *state.counters.write().missed.entry(reason.word()).or_insert(0) += 1;
                *missed.entry((run.job.key.clone(), reason)).or_insert(0) += 1;
                (run, Some(reason.word()))
            }
            // Storing the result settles the planned run.
            ScheduleNote::Done(_) | ScheduleNote::Started(_) | ScheduleNote::Refused(_) => continue,
        };
        let outcome = reason.map(|reason| PlannedOutcome::Missed { reason: reason.to_owned() });
        let row = PlannedRun { outcome, ..build_planned_row(&run) };
        noted.push(match &row.outcome {
            None => PlanUpdate::Planned(row.clone()),
            Some(outcome) => PlanUpdate::Ended(row.id.clone(), outcome.clone()),
        });
        // Sending fails if there is no subscriber.
        let _ = state.updates.send(LiveUpdate::Planned(Arc::new(row)));
    }
    for ((key, reason), runs) in missed {
        log.runs_missed(&key, runs, reason.word(), &reason.to_string());
    }
    if !noted.is_empty() {
        writer.queue_updates(noted);
    }
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
