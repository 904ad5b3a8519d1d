//! Recovers spooled runs: those that an earlier process started, and those that the archive did not
//! accept when they ended.
//!
//! Waits for runs whose process is still alive. Finished runs are stored, unfinished ones are
//! marked as missed.

use super::finished_run::RunOwner;
use super::process_runner::SpoolFiles;
use super::run_tasks::{RunFinished, RunLauncher, RunOutcome};
use crate::watch::run_schedule::MissedReason;
use longhaul_store::history_store::{PlannedOutcome, PlannedRunFilter, PlannedRunState, TimeRange};
use longhaul_store::{Archive, StoreError};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// The poll interval.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum wait for a process. No run takes longer, so the file of such a process is left alone.
const MAX_WAIT: Duration = Duration::from_secs(2 * 3600);

/// Marks planned runs as missed unless they are in the spool. Returns their number.
pub fn settle_abandoned_runs(
    archive: &mut Archive,
    spooled: &HashSet<String>,
) -> Result<u64, StoreError> {
    let waiting = archive.planned(&PlannedRunFilter {
        range: TimeRange::ALL,
        pair: None,
        state: Some(PlannedRunState::Waiting),
        limit: u32::MAX,
    })?;
    let mut settled = 0;
    for row in waiting.into_iter().filter(|row| !spooled.contains(&row.id)) {
        let reason = MissedReason::AgentStopped.word().to_owned();
        archive.record_outcome(&row.id, &PlannedOutcome::Missed { reason })?;
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
            RunOutcome::Failed(format!("started by an earlier agent, but not finished: {error}"))
        }
    }
}
