//! What can go wrong with an archive, by what the user can do about it.

use std::path::PathBuf;

/// Why the archive did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be made or the file cannot be opened.
    #[error("cannot open the archive {}", path.display())]
    Open {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is SQLite, but of another program.
    #[error("{} is the database of another program, not an archive of longhaul", path.display())]
    Foreign { path: PathBuf },
    /// The file was written by a later longhaul.
    #[error(
        "the archive {} has schema {found}, this longhaul knows up to {known}",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    /// The file is damaged or not SQLite at all.
    #[error("the archive {} is damaged or not an archive", path.display())]
    Damaged {
        path: PathBuf,
        source: rusqlite::Error,
    },
    /// The disk did not take a write: no room, or the file may not grow, or the disk failed.
    #[error("the disk did not take a write to the archive {}", path.display())]
    Full {
        path: PathBuf,
        source: rusqlite::Error,
    },
    /// The file or its folder may not be written.
    #[error("the archive {} cannot be written", path.display())]
    ReadOnly {
        path: PathBuf,
        source: rusqlite::Error,
    },
    /// Another process held the archive for longer than the deadline.
    #[error("the archive {} stayed locked by another process", path.display())]
    Locked {
        path: PathBuf,
        source: rusqlite::Error,
    },
    /// Any other failure of the database.
    #[error("cannot {doing} in the archive {}", path.display())]
    Sql {
        doing: &'static str,
        path: PathBuf,
        source: rusqlite::Error,
    },
    /// A database that is reached over the network did not do what was asked.
    #[error("cannot {doing} in {at}")]
    Database {
        doing: &'static str,
        /// Which one, where.
        at: String,
        source: Box<dyn std::error::Error + Send + Sync>,
        hint: Option<String>,
    },
    /// The id is taken by a run that reads differently; what was observed is never overwritten.
    #[error("run {id} is already in the archive, with another content")]
    IdTaken { id: String },
    /// What came from outside is beyond a limit of the archive; nothing of its batch was stored.
    #[error("the archive does not take {what}: {why}")]
    Refused { what: String, why: &'static str },
    #[error("no run is planned under the id {id}")]
    NoSuchPlanned { id: String },
    #[error("no run matches `{wanted}`")]
    NoSuchRun { wanted: String },
    #[error("`{wanted}` matches {count} runs, among them {example}")]
    Ambiguous {
        wanted: String,
        count: u64,
        example: String,
    },
    /// A report could not be turned into JSON or back.
    #[error("cannot read run {id} as a report")]
    Report {
        id: String,
        source: serde_json::Error,
    },
    /// The report is of a schema that this program does not know.
    #[error("run {id} has schema `{found}`, this longhaul reads `{known}`")]
    UnknownReport {
        id: String,
        found: String,
        known: &'static str,
    },
}

impl StoreError {
    /// Sorts a failure of the driver by what can be done about it.
    pub(crate) fn sql(
        doing: &'static str,
        path: &std::path::Path,
        source: rusqlite::Error,
    ) -> Self {
        use rusqlite::ErrorCode as Code;
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                StoreError::Damaged { path, source }
            }
            // A full disk shows as FULL, or as an I/O error when it strikes in the log's index.
            Some(Code::DiskFull | Code::SystemIoFailure) => StoreError::Full { path, source },
            Some(Code::ReadOnly | Code::PermissionDenied) => StoreError::ReadOnly { path, source },
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => StoreError::Locked { path, source },
            Some(Code::CannotOpen) => StoreError::Open {
                path,
                source: Box::new(source),
            },
            _ => StoreError::Sql {
                doing,
                path,
                source,
            },
        }
    }

    /// What to do next, where something can be done.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            StoreError::Open { .. } | StoreError::ReadOnly { .. } => {
                "name a file in a folder that you may write with `--archive FILE`".to_owned()
            }
            StoreError::Foreign { .. } => "name another file with `--archive FILE`".to_owned(),
            StoreError::Newer { .. } => {
                "use the longhaul that wrote it, or another file with `--archive FILE`".to_owned()
            }
            StoreError::Damaged { path, .. } => format!(
                "move {} away and a new archive begins; `sqlite3 FILE .recover` may save the old one",
                path.display()
            ),
            StoreError::Full { .. } => {
                "make room on that disk (`df`), or name a file elsewhere with `--archive FILE`"
                    .to_owned()
            }
            StoreError::Locked { .. } => "try again when the other process is done".to_owned(),
            StoreError::NoSuchRun { .. } | StoreError::Ambiguous { .. } => {
                "`longhaul report list` shows the runs; the first letters of an id are enough"
                    .to_owned()
            }
            StoreError::UnknownReport { .. } => "a later longhaul can read it".to_owned(),
            StoreError::Database { hint, .. } => return hint.clone(),
            StoreError::Sql { .. }
            | StoreError::IdTaken { .. }
            | StoreError::Refused { .. }
            | StoreError::NoSuchPlanned { .. }
            | StoreError::Report { .. } => {
                return None;
            }
        })
    }
}
