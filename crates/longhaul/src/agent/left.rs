//! Recovers spooled runs: those that an earlier process started, and those that the archive did not
//! accept when they ended.
//!
//! Waits for runs whose process is still alive. Finished runs are stored, unfinished ones are
//! marked as missed.

use super::landing::Owner;
use super::runner::Spooled;
use super::runs::{Came, Makers, Ran};
use crate::watch::schedule::Reason;
use longhaul_store::watched::{Outcome, PlannedFilter, Range};
use longhaul_store::{StoreError, Watched};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// The poll interval.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The maximum wait. No run takes longer, so the file of such a process is left alone.
const PATIENCE: Duration = Duration::from_secs(2 * 3600);
/// The number of planned runs per query.
const ROWS: u32 = 10_000;
const HOUR_US: i64 = 3_600_000_000;

/// Returns the due time of the last run in the archive that an earlier process planned, or `None`.
pub fn looked_us(archive: &dyn Watched, now_us: i64) -> Result<Option<i64>, StoreError> {
    let mut span_us = HOUR_US;
    while span_us <= now_us {
        let range = Range {
            begin_us: now_us - span_us,
            end_us: i64::MAX,
        };
        if let Some(newest) = newest_in(archive, range)? {
            return Ok(Some(newest));
        }
        span_us = span_us.saturating_mul(8);
    }
    Ok(None)
}

/// Returns the latest due time in the range. The archive returns the earliest rows first.
fn newest_in(archive: &dyn Watched, mut range: Range) -> Result<Option<i64>, StoreError> {
    let mut newest = None;
    loop {
        let filter = PlannedFilter {
            range,
            pair: None,
            waiting: false,
            limit: ROWS,
        };
        let rows = archive.planned(&filter)?;
        let Some(last) = rows.last() else {
            return Ok(newest);
        };
        newest = Some(last.planned.due_us);
        if rows.len() < ROWS as usize {
            return Ok(newest);
        }
        range.begin_us = last.planned.due_us + 1;
    }
}

/// Marks planned runs as missed unless they are in the spool. Returns their number.
pub fn settle(archive: &mut dyn Watched, spooled: &HashSet<String>) -> Result<u64, StoreError> {
    let mut range = Range::ALL;
    let mut settled = 0;
    loop {
        let rows = archive.planned(&PlannedFilter {
            range,
            pair: None,
            waiting: true,
            limit: ROWS,
        })?;
        let rows_read = rows.len();
        let last_us = rows.last().map(|row| row.planned.due_us);
        for row in rows {
            if spooled.contains(&row.planned.id) {
                continue;
            }
            let reason = Reason::AgentStopped.word().to_owned();
            archive.settle(&row.planned.id, &Outcome::Missed { reason })?;
            settled += 1;
        }
        match last_us {
            Some(last_us) if rows_read == ROWS as usize => range.begin_us = last_us + 1,
            _ => return Ok(settled),
        }
    }
}

/// Lists the spooled runs with their owners, and deletes files without an owner.
pub fn spooled(spool: &Path) -> Vec<(Spooled, Owner)> {
    let all = Spooled::all(spool).unwrap_or_default();
    let mut found = Vec::new();
    for files in all {
        match files.owner() {
            Some(owner) => found.push((files, owner)),
            None => files.remove(),
        }
    }
    let kept: HashSet<_> = found
        .iter()
        .flat_map(|(files, _)| [&files.report, &files.said, &files.owner])
        .collect();
    for entry in fs::read_dir(spool).into_iter().flatten() {
        let Ok(path) = entry.map(|it| it.path()) else {
            continue;
        };
        let of_a_run = path
            .extension()
            .is_some_and(|it| it == "report" || it == "said");
        if of_a_run && !kept.contains(&path) {
            let _ = fs::remove_file(path);
        }
    }
    found
}

/// Recovers the spooled runs until all have ended.
pub async fn see_to(makers: Makers, mut left: Vec<(Spooled, Owner)>) {
    let until = Instant::now() + PATIENCE;
    while !left.is_empty() && Instant::now() < until {
        let mut rest = Vec::new();
        for (files, owner) in left {
            if files.is_under_way() {
                rest.push((files, owner));
                continue;
            }
            let came = take_up(&makers, &files, &owner).await;
            if matches!(came, Came::Spooled(..)) {
                rest.push((files, owner));
                continue;
            }
            let start = None;
            if makers.ran.send(Ran { owner, start, came }).await.is_err() {
                return;
            }
        }
        left = rest;
        if !left.is_empty() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

async fn take_up(makers: &Makers, files: &Spooled, owner: &Owner) -> Came {
    match files.finished(owner) {
        Ok(finished) => makers.land(finished, owner).await,
        Err(error) => {
            files.remove();
            Came::Failed(format!(
                "begun by an earlier agent, and not finished: {error}"
            ))
        }
    }
}
