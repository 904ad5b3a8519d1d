//! Errors of an archive, classified by what the user can do about them.

use std::path::PathBuf;

/// The reason why an archive operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be created or the file cannot be opened.
    #[error("cannot open the archive {}", path.display())]
    Open { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    /// The file is an SQLite database of another program.
    #[error("cannot open the archive {}: it is the database of another program", path.display())]
    Foreign { path: PathBuf },
    /// The file was written by a later longhaul.
    #[error(
        "cannot open the archive {}: it has schema {found}, this longhaul supports up to {known}",
        path.display()
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    /// The file is damaged or not SQLite at all.
    #[error("cannot read the archive {}: it is damaged or not an archive", path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
    /// The disk rejected a write: it is full, the file may not grow, or the disk failed.
    #[error("cannot write the archive {}: the disk refused the write", path.display())]
    Full { path: PathBuf, source: rusqlite::Error },
    /// The file or its folder is not writable.
    #[error("cannot write the archive {}", path.display())]
    ReadOnly { path: PathBuf, source: rusqlite::Error },
    /// The last runs are in the log, which SQLite cannot open in a read-only folder.
    #[error("cannot read the archive {}: its folder is read-only, and its last runs are in {}",
        path.display(), log.display())]
    UnreadableLog { path: PathBuf, log: PathBuf },
    /// Another process held the lock for longer than the timeout.
    #[error("cannot lock the archive {}: another process holds the lock", path.display())]
    Locked { path: PathBuf, source: rusqlite::Error },
    /// Any other failure of the database.
    #[error("cannot {doing} in the archive {}", path.display())]
    Sql { doing: &'static str, path: PathBuf, source: rusqlite::Error },
    /// A request to a remote database failed.
    #[error("cannot {doing} in {at}")]
    Database {
        doing: &'static str,
        /// Name and address of the database.
        at: String,
        source: Box<dyn std::error::Error + Send + Sync>,
        hint: Option<String>,
    },
    /// A run with this id and different content is already stored; observations are never
    /// overwritten.
    #[error("run {id} is already in the archive with different content")]
    IdTaken { id: String },
    /// An input exceeds a limit of the archive; nothing of its batch was stored.
    #[error("the archive refuses {what}: {why}")]
    Refused { what: String, why: &'static str },
    #[error("no planned run has the id {id}")]
    NoSuchPlanned { id: String },
    #[error("no run matches `{wanted}`")]
    NoSuchRun { wanted: String },
    #[error("`{wanted}` matches {count} runs, for example {example}")]
    Ambiguous { wanted: String, count: u64, example: String },
    /// A report could not be converted to or from JSON.
    #[error("cannot read run {id} as a report")]
    Report { id: String, source: serde_json::Error },
    /// The report has a schema that this program does not know.
    #[error("run {id} has schema `{found}`, this longhaul reads `{known}`")]
    UnknownReport { id: String, found: String, known: &'static str },
}

impl StoreError {
    /// Classifies an SQLite error by what the user can do about it.
    pub(crate) fn from_sqlite(
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
            // A full disk is reported as FULL, or as an I/O error if it affects the log's index.
            Some(Code::DiskFull | Code::SystemIoFailure) => StoreError::Full { path, source },
            Some(Code::ReadOnly | Code::PermissionDenied) => StoreError::ReadOnly { path, source },
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => StoreError::Locked { path, source },
            Some(Code::CannotOpen) => StoreError::Open { path, source: Box::new(source) },
            _ => StoreError::Sql { doing, path, source },
        }
    }

    /// Returns the next step for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            StoreError::Open { .. } | StoreError::ReadOnly { .. } => {
                "use a file in a writable folder: `--archive FILE`".to_owned()
            }
            StoreError::UnreadableLog { .. } => {
                "copy both files to a writable folder and name the copy: `--archive FILE`"
                    .to_owned()
            }
            StoreError::Foreign { .. } => "use another file: `--archive FILE`".to_owned(),
            StoreError::Newer { .. } => {
                "use the longhaul that wrote it, or another file: `--archive FILE`".to_owned()
            }
            StoreError::Damaged { path, .. } => format!(
                "move {} away to start a new archive; `sqlite3 FILE .recover` may restore the old one",
                path.display()
            ),
            StoreError::Full { .. } => {
                "free space on that disk (`df`), or use a file elsewhere: `--archive FILE`"
                    .to_owned()
            }
            StoreError::Locked { .. } => "try again when the other process has finished".to_owned(),
            StoreError::NoSuchRun { .. } | StoreError::Ambiguous { .. } => {
                "list the runs with `longhaul report list`; the first letters of an id are enough"
                    .to_owned()
            }
            StoreError::UnknownReport { .. } => "use a later longhaul to read it".to_owned(),
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
