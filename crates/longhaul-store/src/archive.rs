//! The archive file: append a finished run, list runs, read a run.
//!
//! The file uses a write-ahead log: readers never wait for a writer, and writers wait for each
//! other for up to [`LOCK_WAIT`].
//!
//! # Archive schema
//!
//! Brings an archive file to the current schema in numbered steps.
//!
//! `user_version` is the number of steps applied, and `application_id` identifies our files. All
//! missing steps are applied in one transaction under the write lock, so that two programs that
//! open a new file apply them only once. A file of a later version is rejected.

use crate::history_store::{IncomingRun, RunFilter};
use crate::store_error::StoreError;
use longhaul_model::report::v1::{
    AnyReport, HostPair, ListColumns, Report, ReportContent, ReportKind, RunInfo, RunValues,
};
use parking_lot::FairMutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) mod archive_file;

/// The time to wait for another writing process.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The page cache of a connection.
const CACHE_KIB: i64 = 32 << 10;

/// The page size of a new file. Reports are some kB: they fill pages of the default 4 KiB badly, so
/// that a batch would write a quarter more.
const PAGE_BYTES: i64 = 8192;

/// The number of pages in the log that triggers a checkpoint.
const LOG_PAGES: i64 = 8192;

/// The log file is truncated to this size after a checkpoint.
const LOG_BYTES: i64 = 64 << 20;

/// An open archive.
#[derive(Debug)]
pub struct Archive {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    /// The queue of the connections of this process that write.
    pub(crate) write_queue: Arc<FairMutex<()>>,
}

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    New,
    /// The same report was already stored.
    AlreadyStored,
}

/// The columns of a run list, in the order that [`read_run_entry`] reads.
pub(crate) const RUN_COLUMNS: &str = "id, started_at, kind, initiator_host, responder_host, \
     responder_address, streams, goodput_bps, limited_by, analysis_version, \
     (SELECT count(*) FROM run part WHERE part.part_of = run.id), list_values, environment";

/// One run in a list.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RunRow))]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunEntry {
    pub id: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// May be another word if a later version of longhaul wrote the archive.
    #[cfg_attr(feature = "schema", schema(value_type = ReportKind))]
    pub kind: String,
    pub initiator_host: String,
    pub responder_host: String,
    #[serde(skip)]
    pub responder_address: Option<String>,
    pub streams: Option<u32>,
    pub goodput_bps: Option<u64>,
    pub limited_by: Option<String>,
    #[serde(skip)]
    pub analysis_version: u32,
    /// The number of probes that are runs of their own; absent: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub parts: u32,
    /// Absent for kinds without further values, and for runs that an earlier version archived.
    pub values: Option<RunValues>,
    /// `network`, `loopback`, or `lab:NAME`; absent for imported results and for runs of earlier
    /// versions.
    pub environment: Option<String>,
    /// The requested pair, or the pair of a live update.
    pub pair: Option<HostPair>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl RunEntry {
    /// Returns the row of a run with its first pair, and without its parts.
    pub fn from_run(incoming: &IncomingRun) -> RunEntry {
        let IncomingRun { run, list_columns: derived, .. } = incoming;
        RunEntry {
            id: run.id.clone(),
            started_at: run.started_at.clone(),
            kind: incoming.kind.word().to_owned(),
            initiator_host: run.initiator.host.clone(),
            responder_host: run.responder.host.clone(),
            responder_address: run.responder.address.clone(),
            streams: derived.streams,
            goodput_bps: derived.goodput_bps,
            limited_by: derived.limited_by.map(str::to_owned),
            analysis_version: derived.analysis_version,
            parts: 0,
            values: Some(derived.values).filter(|it| *it != RunValues::default()),
            environment: run.environment.as_ref().map(ToString::to_string),
            pair: incoming.pairs.first().cloned(),
        }
    }
}

/// Inserts a report with its list columns; returns 0 if the id is taken.
pub(crate) fn insert_run(
    to: &Connection,
    run: &RunInfo,
    kind: ReportKind,
    derived: &ListColumns,
    text: &str,
    watched: bool,
) -> rusqlite::Result<usize> {
    to.prepare_cached(
        "INSERT INTO run (id, started_at, kind, initiator_host, responder_host, \
         responder_address, streams, goodput_bps, limited_by, analysis_version, report, \
         part_of, part_index, watched, list_values, environment) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
         ON CONFLICT (id) DO NOTHING",
    )?
    .execute(params![
        run.id,
        run.started_at,
        kind.word(),
        run.initiator.host,
        run.responder.host,
        run.responder.address,
        derived.streams,
        derived.goodput_bps.and_then(|bps| i64::try_from(bps).ok()),
        derived.limited_by,
        derived.analysis_version,
        text,
        run.part_of.as_ref().map(|whole| &whole.id),
        run.part_of.as_ref().map(|whole| whole.index),
        watched,
        serde_json::to_string(&derived.values)
            .ok()
            .filter(|_| derived.values != RunValues::default()),
        run.environment.as_ref().map(ToString::to_string),
    ])
}

impl Archive {
    /// Opens the file for reading and writing, and creates it and its folder if necessary; only
    /// their owner may use them.
    pub fn open(path: &Path) -> Result<Archive, StoreError> {
        archive_file::create_private(path)
            .map_err(|e| StoreError::Open { path: path.to_owned(), source: Box::new(e) })?;
        Archive::open_read_write(path)
    }

    /// Opens an existing file, for reading only if it or its folder is read-only; `None` if it does
    /// not exist.
    pub fn open_existing(path: &Path) -> Result<Option<Archive>, StoreError> {
        let exists = path
            .try_exists()
            .map_err(|e| StoreError::Open { path: path.to_owned(), source: Box::new(e) })?;
        if !exists {
            return Ok(None);
        }
        match Archive::open_read_write(path) {
            Err(error @ (StoreError::Open { .. } | StoreError::ReadOnly { .. })) => {
                Archive::open_immutable(path, error).map(Some)
            }
            opened => opened.map(Some),
        }
    }

    fn open_read_write(path: &Path) -> Result<Archive, StoreError> {
        let sql = |e| StoreError::from_sqlite("open", path, e);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(sql)?;
        connection.busy_timeout(LOCK_WAIT).map_err(sql)?;
        read_schema_level(&connection, path)?;
        // A read-only file is sufficient for `report list`; an append to it fails later.
        if !connection.is_readonly("main").map_err(sql)? {
            archive_file::tighten(path);
            // This has no effect on a file that already has tables.
            connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(sql)?;
            enable_write_ahead_log(&connection).map_err(sql)?;
            set_pragmas(&connection).map_err(sql)?;
            apply_missing_steps(&mut connection, path)?;
        }
        Ok(Archive::new(connection, path))
    }

    fn new(connection: Connection, path: &Path) -> Archive {
        let write_queue = Arc::default();
        Archive { connection, path: path.to_owned(), write_queue }
    }

    /// Lets this connection write in turn with the others of its process that share the queue. SQLite
    /// has no queue: a connection that writes all the time would keep the others waiting.
    pub fn share_write_queue(&mut self, queue: Arc<FairMutex<()>>) {
        self.write_queue = queue;
    }

    /// Opens a file whose log cannot be opened because the folder is read-only. Whoever may write
    /// there nevertheless must not do so meanwhile.
    fn open_immutable(path: &Path, error: StoreError) -> Result<Archive, StoreError> {
        let log = archive_file::beside(path, "-wal");
        if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            return Err(StoreError::UnreadableLog { path: path.to_owned(), log });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let opened = Connection::open_with_flags(archive_file::immutable_uri(path), flags);
        let Ok(connection) = opened else { return Err(error) };
        match read_schema_level(&connection, path) {
            Ok(_) => Ok(Archive::new(connection, path)),
            Err(StoreError::Open { .. } | StoreError::ReadOnly { .. }) => Err(error),
            Err(other) => Err(other),
        }
    }

    /// Stores a finished run. Storing the same report twice has no effect; a different report under
    /// a taken id is an error. A scan begun under this id is marked as finished.
    pub fn append<P, O, A>(&mut self, report: &Report<P, O, A>) -> Result<AppendOutcome, StoreError>
    where
        Report<P, O, A>: ReportContent,
    {
        let id = &report.run.id;
        let text = serde_json::to_string(report)
            .map_err(|source| StoreError::Report { id: id.clone(), source })?;
        let derived = report.list_columns();
        let inserted = self.write("store the run", |to| {
            let inserted = insert_run(to, &report.run, report.kind, &derived, &text, false)?;
            if inserted > 0 {
                to.execute("DELETE FROM begun WHERE id = ?1", [id])?;
            }
            Ok(inserted)
        })?;
        if inserted > 0 {
            return Ok(AppendOutcome::New);
        }
        match self.report_json(id)? {
            Some(stored) if stored == text => Ok(AppendOutcome::AlreadyStored),
            _ => Err(StoreError::IdTaken { id: id.clone() }),
        }
    }

    /// Returns the latest runs, newest first, at most `limit`. Probes of a listed run are counted
    /// in its entry and not listed themselves.
    pub fn list(&self, limit: u32) -> Result<Vec<RunEntry>, StoreError> {
        self.runs(&RunFilter { with_parts: false, ..RunFilter::newest(limit) })
    }

    /// Returns the run that `wanted` identifies: an id, a unique prefix of one, or `last`.
    pub fn find(&self, wanted: &str) -> Result<AnyReport, StoreError> {
        let id = if wanted == "last" {
            self.list(1)?.pop().map(|entry| entry.id)
        } else {
            self.find_by_prefix(wanted)?
        };
        let report = id.map(|id| self.report(&id)).transpose()?.flatten();
        report.ok_or_else(|| StoreError::NoSuchRun { wanted: wanted.to_owned() })
    }

    fn find_by_prefix(&self, prefix: &str) -> Result<Option<String>, StoreError> {
        // Compares as text, not as a pattern, so that `%` has no special meaning; the bounds avoid
        // a scan of an archive with millions of runs.
        let (count, exact, first): (u64, Option<String>, Option<String>) =
            self.read("look up the run", |from| {
                from.query_row(
                    "SELECT count(*), max(CASE WHEN id = ?1 THEN id END), min(id) FROM run \
                     WHERE id >= ?1 AND id <= ?2 AND substr(id, 1, length(?1)) = ?1 AND ?1 <> ''",
                    [prefix, &format!("{prefix}{}", char::MAX)],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )
            })?;
        match (count, exact, first) {
            (_, Some(id), _) | (1, None, Some(id)) => Ok(Some(id)),
            (2.., None, Some(example)) => {
                Err(StoreError::Ambiguous { wanted: prefix.to_owned(), count, example })
            }
            _ => Ok(None),
        }
    }

    /// Returns the stored report of exactly this id, unchanged.
    pub(crate) fn report_json(&self, id: &str) -> Result<Option<String>, StoreError> {
        self.read("read the run", |from| {
            from.query_row("SELECT report FROM run WHERE id = ?1", [id], |row| row.get(0))
                .optional()
        })
    }
}

/// Enables the write-ahead log. SQLite does not wait for a lock in this step, so two programs that
/// open the same new file wait here.
fn enable_write_ahead_log(connection: &Connection) -> Result<(), rusqlite::Error> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        let switched = connection
            .query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0))
            .map(drop);
        match switched {
            Err(e)
                if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// Makes commits durable, checkpoints in large steps and bounds the cache, which holds the last
/// pages of some thousand series.
fn set_pragmas(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

pub(crate) fn read_run_entry(row: &Row<'_>) -> Result<RunEntry, rusqlite::Error> {
    Ok(RunEntry {
        id: row.get(0)?,
        started_at: row.get(1)?,
        kind: row.get(2)?,
        initiator_host: row.get(3)?,
        responder_host: row.get(4)?,
        responder_address: row.get(5)?,
        streams: row.get(6)?,
        goodput_bps: row.get(7)?,
        limited_by: row.get(8)?,
        analysis_version: row.get(9)?,
        parts: row.get(10)?,
        values: row.get::<_, Option<String>>(11)?.and_then(|it| serde_json::from_str(&it).ok()),
        environment: row.get(12)?,
        pair: None,
    })
}

/// `LHAR`, in the file header.
pub const APPLICATION_ID: i64 = 0x4C48_4152;

const SCHEMA_STEPS: [&str; 11] = [
    include_str!("../schema/0001-runs.sql"),
    include_str!("../schema/0002-parts.sql"),
    include_str!("../schema/0003-watched.sql"),
    include_str!("../schema/0004-forwarded.sql"),
    include_str!("../schema/0005-states.sql"),
    include_str!("../schema/0006-environment.sql"),
    include_str!("../schema/0007-pairs-of-runs.sql"),
    include_str!("../schema/0008-large-archives.sql"),
    include_str!("../schema/0009-destinations.sql"),
    include_str!("../schema/0010-transfer-days.sql"),
    include_str!("../schema/0011-open-events.sql"),
];

/// The number of schema steps in this version.
pub const LATEST_STEP: i64 = SCHEMA_STEPS.len() as i64;

/// Checks the owner of the file and applies missing steps.
pub(crate) fn apply_missing_steps(
    connection: &mut Connection,
    path: &Path,
) -> Result<(), StoreError> {
    if read_schema_level(connection, path)? == LATEST_STEP {
        return Ok(());
    }
    let sql = |e| StoreError::from_sqlite("prepare tables", path, e);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    // Read again under the lock, because another process may have applied the steps.
    let from = read_level_in_transaction(&transaction, path)?;
    for step in SCHEMA_STEPS.iter().skip(from as usize) {
        transaction.execute_batch(step).map_err(sql)?;
    }
    transaction
        .pragma_update(None, "application_id", APPLICATION_ID)
        .and_then(|()| transaction.pragma_update(None, "user_version", LATEST_STEP))
        .and_then(|()| transaction.commit())
        .map_err(sql)
}

/// Returns the number of applied steps; rejects files of another program or of a later version.
///
/// Everything is read in one transaction. Between two separate reads another process could create
/// the tables, and a file with tables but without our id would look like that of another program.
pub(crate) fn read_schema_level(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let snapshot = connection
        .unchecked_transaction()
        .map_err(|e| StoreError::from_sqlite("read the header", path, e))?;
    read_level_in_transaction(&snapshot, path)
}

/// Reads the number of applied steps in the caller's transaction.
fn read_level_in_transaction(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let read = |query| {
        connection
            .query_row(query, [], |row| row.get::<_, i64>(0))
            .map_err(|e| StoreError::from_sqlite("read the header", path, e))
    };
    let found = read("PRAGMA user_version")?;
    let owner = read("PRAGMA application_id")?;
    let tables = read("SELECT count(*) FROM sqlite_schema")?;
    if owner != APPLICATION_ID && (tables > 0 || owner != 0) {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    if found > LATEST_STEP {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: LATEST_STEP });
    }
    Ok(found.max(0))
}
