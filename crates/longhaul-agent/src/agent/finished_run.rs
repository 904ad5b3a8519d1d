//! Converts the output of a run into what the archive stores: report, pairs and series values.
//!
//! # Spool recovery
//!
//! Recovers spooled runs: those that an earlier process started, and those that the archive did not
//! accept when they ended.
//!
//! Waits for runs whose process is still alive. Finished runs are stored, unfinished ones are
//! marked as missed.

use super::job_status::{FailureReason, RunFailure};
use super::process_runner::SpoolFiles;
use super::run_tasks::{RunFinished, RunLauncher, RunOutcome};
use crate::path_traces::parse_time_us;
use crate::watch::measure_jobs::MeasureJob;
use crate::watch::run_schedule::{self, MissedReason};
use longhaul_history::change_detection::extract_points;
use longhaul_history::report_comparison::daily_transfers::list_daily_transfers;
use longhaul_model::report::v1::{AnyReport, HostPair, ReportCaveat, ReportKind, ThroughputReport};
use longhaul_store::history_store::{
    IncomingRun, PlannedOutcome, PlannedRun, PlannedRunFilter, PlannedRunState, SeriesReading,
    TimeRange,
};
use longhaul_store::{Archive, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// The maximum number of quoted characters of an invalid time.
const MAX_TIME_CHARS: usize = 40;

/// The caveat code of a report that its own program could not store.
const NOT_ARCHIVED: &str = "not_archived";

/// The identity of a run by the names of the watch file. Stored next to its result, so that a later
/// process can archive it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOwner {
    #[serde(rename = "planned")]
    pub planned_id: String,
    pub measure: String,
    /// The agent that started the run.
    #[serde(rename = "near")]
    pub agent: String,
    /// `None` if the run concerns one host.
    #[serde(rename = "far")]
    pub target: Option<String>,
    /// True if the target sends; only for runs with a single direction.
    #[serde(rename = "back")]
    pub reverse: bool,
}

impl RunOwner {
    pub fn of(planned_id: &str, job: &MeasureJob, agent: &str) -> RunOwner {
        RunOwner {
            planned_id: planned_id.to_owned(),
            measure: job.key.measure.to_string(),
            agent: agent.to_owned(),
            target: job.target.as_ref().map(ToString::to_string),
            reverse: job.is_reverse(),
        }
    }

    /// Returns the pair in the direction of the payload.
    pub fn pair(&self) -> Option<HostPair> {
        let (near, far) = (self.agent.clone(), self.target.clone()?);
        Some(if self.reverse {
            HostPair { from: far, to: near }
        } else {
            HostPair { from: near, to: far }
        })
    }

    /// Returns the pairs that a report of this kind measures.
    fn pairs(&self, kind: ReportKind) -> Vec<HostPair> {
        let both_ways = matches!(kind, ReportKind::Path | ReportKind::Available);
        let Some(pair) = self.pair() else {
            return Vec::new();
        };
        let back = HostPair { from: pair.to.clone(), to: pair.from.clone() };
        if both_ways { vec![pair, back] } else { vec![pair] }
    }
}

/// A finished run.
#[derive(Debug)]
pub struct FinishedRun {
    pub report: AnyReport,
    pub watched: IncomingRun,
}

impl FinishedRun {
    /// Returns the reason if the run ended early. Its partial report is then stored as one that was
    /// not planned.
    pub fn take_early_end(&mut self) -> Option<RunFailure> {
        let caveat = self.report.caveats().iter().find(|caveat| caveat.is_early_end())?;
        self.watched.planned_id = None;
        // The agent interrupts a run only at its deadline.
        let reason = if caveat.code == ReportCaveat::INTERRUPTED {
            FailureReason::Timeout
        } else {
            FailureReason::Target
        };
        Some(RunFailure::new(reason, caveat.text.clone()))
    }
}

/// The reason why the output of a run is not a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportReadError {
    #[error("the run wrote no report")]
    Empty,
    #[error(transparent)]
    Unreadable(#[from] StoreError),
    #[error("the report has an invalid start time: {0:?}")]
    Time(String),
}

/// Parses the output of a run.
pub fn read_report(written: &[u8], owner: &RunOwner) -> Result<FinishedRun, ReportReadError> {
    let text = String::from_utf8_lossy(written);
    let text = text.trim_end_matches([' ', '\n', '\0']);
    if text.is_empty() {
        return Err(ReportReadError::Empty);
    }
    let (mut watched, mut report) = IncomingRun::parse_json(text.to_owned(), 0)?;
    if remove_not_archived(&mut report) {
        watched = IncomingRun::from_report(&report, 0)?;
    }
    fill_run(&mut watched, &report, &owner.agent, owner.target.as_deref())?;
    watched.pairs = owner.pairs(watched.kind);
    if watched.kind == ReportKind::Flows {
        watched.pairs = list_reading_pairs(&watched.readings);
    }
    watched.planned_id = Some(owner.planned_id.clone());
    Ok(FinishedRun { report, watched })
}

/// Returns the pairs of the values, without duplicates.
pub fn list_reading_pairs(readings: &[SeriesReading]) -> Vec<HostPair> {
    let pairs: BTreeSet<&HostPair> = readings.iter().map(|it| &it.pair).collect();
    pairs.into_iter().cloned().collect()
}

/// Adds the start time, the series values and the transfers of a run that `near` started.
pub fn fill_run(
    run: &mut IncomingRun,
    report: &AnyReport,
    near: &str,
    far: Option<&str>,
) -> Result<(), ReportReadError> {
    let began = &report.run().started_at;
    run.at_us = parse_time_us(began)
        .ok_or_else(|| ReportReadError::Time(began.chars().take(MAX_TIME_CHARS).collect()))?;
    run.readings = extract_points(report, Some(near), far)
        .into_iter()
        .map(|(pair, quantity, point)| SeriesReading { pair, quantity, point })
        .collect();
    if let AnyReport::Flows(report) = report {
        run.transfers = list_daily_transfers(report, near);
    }
    Ok(())
}

/// Removes the caveat that the run was not archived, because the agent archives it now.
fn remove_not_archived(report: &mut AnyReport) -> bool {
    let caveats = report.caveats_mut();
    let before = caveats.len();
    caveats.retain(|caveat| caveat.code != NOT_ARCHIVED);
    caveats.len() < before
}

/// Returns the bytes that a run sent, if its report contains them.
pub fn count_sent_bytes(report: &AnyReport) -> Option<u64> {
    match report {
        AnyReport::Throughput(it) => Some(count_transfer_bytes(it)),
        AnyReport::Scan(it) => {
            let cells = it.observation.cells.iter();
            Some(cells.filter_map(|cell| cell.receiver_bytes).sum())
        }
        AnyReport::Available(it) => {
            let seen = &it.observation;
            let both = [&seen.forward, &seen.reverse];
            Some(both.into_iter().flatten().map(|it| it.probe_bytes).sum())
        }
        AnyReport::Load(it) => {
            let phases = it.observation.phases.iter();
            let flows = phases.flat_map(|phase| [&phase.load, &phase.competitor]);
            Some(flows.flatten().map(|flow| flow.bytes).sum())
        }
        AnyReport::Copy(it) => Some(it.observation.sent_bytes),
        AnyReport::Latency(it) => {
            Some(u64::from(it.plan.payload_bytes) * it.observation.packets.len() as u64)
        }
        AnyReport::Host(_)
        | AnyReport::Predict(_)
        | AnyReport::Imported(_)
        | AnyReport::Flows(_) => Some(0),
        AnyReport::Path(_) => None,
    }
}

fn count_transfer_bytes(report: &ThroughputReport) -> u64 {
    let back = report.analysis.reverse.as_ref();
    report.analysis.totals.sender_bytes + back.map_or(0, |it| it.totals.sender_bytes)
}

/// The poll interval.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum wait for a process. No run takes longer, so the file of such a process is left alone.
const MAX_WAIT: Duration = Duration::from_secs(2 * 3600);

/// Marks planned runs of this agent as missed unless they are in the spool; those of others that a
/// collector holds are theirs. Returns their number.
pub fn settle_abandoned_runs(
    archive: &mut Archive,
    agent: &str,
    spooled: &HashSet<String>,
) -> Result<u64, StoreError> {
    let waiting = archive.planned(&PlannedRunFilter {
        range: TimeRange::ALL,
        pair: None,
        state: Some(PlannedRunState::Waiting),
        limit: u32::MAX,
    })?;
    let mut settled = 0;
    let is_own = |row: &PlannedRun| run_schedule::is_id_of_agent(&row.id, agent);
    for row in waiting.into_iter().filter(|row| is_own(row) && !spooled.contains(&row.id)) {
        let reason = MissedReason::AgentStopped.word().to_owned();
        archive.record_outcome(&row.id, &PlannedOutcome::Missed { reason, detail: None })?;
        settled += 1;
    }
    Ok(settled)
}

/// Lists the spooled runs with their owners, and deletes files without an owner.
pub fn list_spooled_runs(spool: &Path) -> Vec<(SpoolFiles, RunOwner)> {
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(spool).into_iter().flatten().flatten() {
        let path = entry.path();
        let ending = path.extension().and_then(OsStr::to_str);
        if matches!(ending, Some("owner" | "report" | "said")) {
            ids.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
        }
    }
    let mut found = Vec::new();
    for files in ids.iter().map(|id| SpoolFiles::new(spool, id)) {
        match files.read_owner() {
            Some(owner) => found.push((files, owner)),
            None => files.remove(),
        }
    }
    found
}

/// Recovers the spooled runs until all have ended.
pub async fn recover_spool(launcher: RunLauncher, mut left: Vec<(SpoolFiles, RunOwner)>) {
    let until = Instant::now() + MAX_WAIT;
    while !left.is_empty() {
        let mut rest = Vec::new();
        for (files, owner) in left {
            if files.is_running() {
                if Instant::now() < until {
                    rest.push((files, owner));
                }
                continue;
            }
            let outcome = recover_run(&launcher, &files, &owner).await;
            if matches!(outcome, RunOutcome::Spooled(..)) {
                rest.push((files, owner));
                continue;
            }
            let start = None;
            if launcher.finished_runs.send(RunFinished { owner, start, outcome }).await.is_err() {
                return;
            }
        }
        left = rest;
        if !left.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

async fn recover_run(launcher: &RunLauncher, files: &SpoolFiles, owner: &RunOwner) -> RunOutcome {
    match files.read_finished_run(owner) {
        Ok(finished) => launcher.store_run(finished, owner).await,
        Err(error) => {
            files.remove();
            let text = format!("started by an earlier agent, but not finished: {error}");
            RunOutcome::Failed(RunFailure::new(FailureReason::Report, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::flows_test_builder::ArchiveFolder;
    use longhaul_model::report::v1::quantity::PathQuantity;
    use serde_json::{Value, json};

    const BULK: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");
    const PATH: &str = include_str!("../../../../fixtures/reports/path-sanjose-lulea.json");

    fn owner(back: bool) -> RunOwner {
        RunOwner {
            planned_id: "a-1-1".to_owned(),
            measure: "bulk".to_owned(),
            agent: "here".to_owned(),
            target: Some("there".to_owned()),
            reverse: back,
        }
    }

    fn on_one_line(text: &str) -> String {
        let value: Value = serde_json::from_str(text).expect("JSON");
        value.to_string()
    }

    #[test]
    fn only_own_runs_that_are_in_no_spool_are_abandoned() {
        let folder = ArchiveFolder::new("abandoned");
        let mut archive = folder.open();
        let planned = ["here-1f-1", "here-1f-2", "there-1f-1"].map(|id| PlannedRun {
            id: id.to_owned(),
            due_us: 0,
            measurement: "bulk".to_owned(),
            pair: None,
            outcome: None,
        });
        archive.add_planned(&planned).expect("planned runs");
        let spooled = HashSet::from(["here-1f-2".to_owned()]);
        let settled = settle_abandoned_runs(&mut archive, "here", &spooled).expect("an archive");
        assert_eq!(settled, 1);
        let outcomes = archive.planned(&PlannedRunFilter {
            range: TimeRange::ALL,
            pair: None,
            state: Some(PlannedRunState::Waiting),
            limit: u32::MAX,
        });
        let waiting = outcomes.expect("planned runs").into_iter().map(|row| row.id);
        assert_eq!(
            waiting.collect::<HashSet<String>>(),
            ["here-1f-2", "there-1f-1"].map(String::from).into()
        );
    }

    #[test]
    fn a_report_is_filed_under_the_names_of_the_file_and_keeps_its_text() {
        let text = on_one_line(BULK);
        let padded = format!("{text}\n{}", " ".repeat(4096));
        let finished = read_report(padded.as_bytes(), &owner(false)).expect("a report");
        assert_eq!(finished.watched.report, text);
        assert_eq!(finished.watched.planned_id.as_deref(), Some("a-1-1"));
        let pair = HostPair { from: "here".to_owned(), to: "there".to_owned() };
        assert_eq!(finished.watched.pairs, std::slice::from_ref(&pair));
        let goodput = finished.watched.readings.iter();
        let goodput = goodput.filter(|it| it.quantity == PathQuantity::Goodput);
        assert_eq!(goodput.map(|it| &it.pair).collect::<Vec<_>>(), [&pair]);
        assert!(finished.watched.at_us > 0);
        assert!(count_sent_bytes(&finished.report).is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn a_look_at_a_path_is_of_both_directions() {
        let finished = read_report(PATH.as_bytes(), &owner(false)).expect("a report");
        assert_eq!(finished.watched.pairs.len(), 2);
    }

    #[test]
    fn what_is_stored_now_is_not_said_to_be_unstored() {
        let mut value: Value = serde_json::from_str(BULK).expect("JSON");
        let caveat = json!({"code": NOT_ARCHIVED, "text": "no room"});
        value["caveats"].as_array_mut().expect("a list").push(caveat);
        let finished = read_report(value.to_string().as_bytes(), &owner(false)).expect("a report");
        assert!(!finished.watched.report.contains(NOT_ARCHIVED));
    }

    #[test]
    fn half_a_report_is_none() {
        let text = on_one_line(BULK);
        for cut in [0, 1, text.len() / 2, text.len() - 1] {
            assert!(read_report(&text.as_bytes()[..cut], &owner(false)).is_err(), "{cut}");
        }
    }

    #[test]
    fn an_owner_comes_back_from_its_text() {
        for (back, far) in [(true, Some("there".to_owned())), (false, None)] {
            let owner = RunOwner { target: far, ..owner(back) };
            let text = serde_json::to_string(&owner).expect("JSON");
            assert_eq!(serde_json::from_str::<RunOwner>(&text).ok(), Some(owner));
        }
        assert!(serde_json::from_str::<RunOwner>("{}").is_err());
    }
}
