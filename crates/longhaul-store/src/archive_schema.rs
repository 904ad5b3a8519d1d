//! Brings an archive file to the current schema in numbered steps.
//!
//! `user_version` is the number of steps applied, and `application_id` identifies our files. All
//! missing steps are applied in one transaction under the write lock, so that two programs that
//! open a new file apply them only once. A file of a later version is rejected.

use crate::store_error::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// `LHAR`, in the file header.
pub const APPLICATION_ID: i64 = 0x4C48_4152;

const SCHEMA_STEPS: [&str; 4] = [
    include_str!("../schema/0001-runs.sql"),
    include_str!("../schema/0002-parts.sql"),
    include_str!("../schema/0003-watched.sql"),
    include_str!("../schema/0004-forwarded.sql"),
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
