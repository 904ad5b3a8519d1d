//! Maintenance of an archive by its owner: check, backup, and deletion of runs.

use crate::archive::Archive;
use crate::archived_report;
use crate::history_store::RunFilter;
use crate::sqlite::{STARTED_IN_RANGE, filter_values, run_conditions, started_range};
use crate::store_error::StoreError;
use longhaul_model::sanitize::sanitize_line;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, ToSql, Transaction, params_from_iter};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The maximum number of problems that a check returns.
pub const MAX_PROBLEMS: usize = 20;
/// The number of runs deleted in one transaction, which bounds the time that other writers wait.
const STEP_RUNS: u32 = 200;
/// The maximum length of a problem.
const MAX_PROBLEM_CHARS: usize = 200;

/// The state of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArchiveCheck {
    pub bytes: u64,
    pub runs: u64,
    /// Runs of an agent.
    pub watched_runs: u64,
    /// Start of the first and of the last run; absent: there are none.
    pub period: Option<[String; 2]>,
    /// Damaged pages and unreadable reports, at most [`MAX_PROBLEMS`].
    pub problems: Vec<String>,
}

/// The runs that were deleted, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PrunedRuns {
    /// Including the probes of scans.
    pub runs: u64,
    /// The size of their reports.
    pub bytes: u64,
}

impl Archive {
    /// Checks the structure of the file and reads all reports.
    ///
    /// Returns an error only if the check itself is impossible.
    pub fn check(&self) -> Result<ArchiveCheck, StoreError> {
        let bytes = self.disk_bytes()?;
        self.read("check the runs", |from| {
            let mut problems: Vec<String> = from
                .prepare(&format!("PRAGMA integrity_check({MAX_PROBLEMS})"))?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            problems.retain(|line| line != "ok");
            let (runs, watched_runs, first, last): (u64, u64, Option<String>, Option<String>) =
                from.query_row(
                    "SELECT count(*), coalesce(sum(watched), 0), min(started_at), max(started_at) \
                     FROM run",
                    [],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
                )?;
            check_reports(from, &mut problems)?;
            for problem in &mut problems {
                *problem = sanitize_line(problem, MAX_PROBLEM_CHARS);
            }
            let period = first.zip(last).map(|(first, last)| [first, last]);
            Ok(ArchiveCheck { bytes, runs, watched_runs, period, problems })
        })
    }

    /// Writes a consistent copy to a new file and returns its size. Others may write to the archive
    /// meanwhile.
    ///
    /// Returns [`BackupError::Exists`] if the file exists; it is not changed.
    pub fn back_up(&self, to: &Path) -> Result<u64, BackupError> {
        if to.try_exists()? {
            return Err(BackupError::Exists(to.to_owned()));
        }
        let mut name = to.as_os_str().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let part = PathBuf::from(name);
        let copied = self.copy_to(&part).and_then(|()| {
            File::open(&part)?.sync_all()?;
            // A hard link fails if the file was created meanwhile, where a rename would replace it.
            std::fs::hard_link(&part, to)?;
            let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok(std::fs::metadata(to)?.len())
        });
        // Without a copy there may be no file to remove.
        let _ = std::fs::remove_file(&part);
        copied
    }

    fn copy_to(&self, part: &Path) -> Result<(), BackupError> {
        let sql = |e| StoreError::from_sqlite("copy the runs", &self.path, e);
        let target = part.to_str().ok_or_else(|| io::Error::other("the name is not UTF-8"))?;
        // SQLite fills an empty file and keeps its mode.
        File::options().write(true).create_new(true).mode(0o600).open(part)?;
        self.connection.execute("VACUUM INTO ?1", [target]).map_err(sql)?;
        let copy = Connection::open_with_flags(part, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let copy = copy.map_err(sql)?;
        let state: String =
            copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sql)?;
        if state != "ok" {
            return Err(io::Error::other(format!("the copy is damaged: {state}")).into());
        }
        Ok(())
    }

    /// Counts the runs that [`Archive::prune`] would delete.
    pub fn count_prunable(&self, filter: &RunFilter) -> Result<PrunedRuns, StoreError> {
        let chosen = choose_runs(filter);
        let query = format!(
            "SELECT count(*), coalesce(sum(length(CAST(report AS BLOB))), 0) FROM run \
             WHERE NOT watched AND (id IN ({chosen}) OR part_of IN ({chosen}))"
        );
        let values = prune_values(filter, u32::MAX);
        self.read("count the runs", |from| {
            from.query_row(&query, params_from_iter(&values), |row| {
                Ok(PrunedRuns { runs: row.get(0)?, bytes: row.get(1)? })
            })
        })
    }

    /// Deletes the runs of the filter with their probes, except those of an agent, in steps that
    /// each leave the archive consistent.
    pub fn prune(&mut self, filter: &RunFilter) -> Result<PrunedRuns, StoreError> {
        let mut pruned = PrunedRuns::default();
        loop {
            let step = self.write("delete runs", |to| delete_step(to, filter))?;
            if step.runs == 0 {
                return Ok(pruned);
            }
            pruned.runs += step.runs;
            pruned.bytes += step.bytes;
        }
    }

    /// Returns the space of deleted rows to the disk. Needs as much free space as the archive has
    /// data, and excludes all others meanwhile.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        self.connection
            .execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
            .map_err(|e| StoreError::from_sqlite("compact the file", &self.path, e))
    }
}

/// The reason why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{} exists", .0.display())]
    Exists(PathBuf),
    #[error("cannot write the copy")]
    Write(#[from] io::Error),
    #[error(transparent)]
    Read(#[from] StoreError),
}

/// Adds a problem for each report that cannot be read.
fn check_reports(from: &Transaction<'_>, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut statement = from.prepare("SELECT id, report FROM run")?;
    let mut rows = statement.query([])?;
    while problems.len() < MAX_PROBLEMS
        && let Some(row) = rows.next()?
    {
        let (id, text): (String, String) = (row.get(0)?, row.get(1)?);
        if let Err(error) = archived_report::parse_report(&id, &text) {
            problems.push(error.to_string());
        }
    }
    Ok(())
}

/// Returns the query for the ids of runs of a filter that no agent made.
fn choose_runs(filter: &RunFilter) -> String {
    let conditions = run_conditions(filter);
    format!("SELECT id FROM run WHERE NOT watched AND {STARTED_IN_RANGE} AND {conditions} LIMIT ?5")
}

/// Returns the parameters of [`choose_runs`] for at most `limit` runs.
fn prune_values(filter: &RunFilter, limit: u32) -> Vec<Value> {
    filter_values(started_range(filter.range), &RunFilter { limit, ..filter.clone() })
}

/// Deletes up to [`STEP_RUNS`] runs and their probes.
fn delete_step(to: &Transaction<'_>, filter: &RunFilter) -> rusqlite::Result<PrunedRuns> {
    let ids: Vec<String> = to
        .prepare_cached(&choose_runs(filter))?
        .query_map(params_from_iter(&prune_values(filter, STEP_RUNS)), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut step = PrunedRuns::default();
    let mut delete = to.prepare_cached(
        "DELETE FROM run WHERE (id = ?1 OR part_of = ?1) AND NOT watched \
         RETURNING length(CAST(report AS BLOB))",
    )?;
    for id in &ids {
        let mut rows = delete.query([id as &dyn ToSql])?;
        while let Some(row) = rows.next()? {
            step.runs += 1;
            step.bytes += row.get::<_, u64>(0)?;
        }
    }
    Ok(step)
}
