//! Brings an archive file to the present shape, one numbered step after the other.
//!
//! `user_version` counts the steps a file has taken and `application_id` says that it is ours.
//! All missing steps happen in one transaction under the write lock, so that two programs that
//! open a new file at once do them once. A file that is ahead of us is refused, not guessed at.

use crate::error::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// `LHAR`, in the header of the file.
pub const APPLICATION_ID: i64 = 0x4C48_4152;

const STEPS: [&str; 4] = [
    include_str!("../schema/0001-runs.sql"),
    include_str!("../schema/0002-parts.sql"),
    include_str!("../schema/0003-watched.sql"),
    include_str!("../schema/0004-forwarded.sql"),
];

/// The number of steps this program knows.
pub const LATEST: i64 = STEPS.len() as i64;

/// Checks whose file it is and takes the missing steps.
pub(crate) fn bring_up_to_date(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    if level(connection, path)? == LATEST {
        return Ok(());
    }
    let sql = |e| StoreError::sql("prepare tables", path, e);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(sql)?;
    // Read again under the lock: another process may have been faster.
    let from = level_here(&transaction, path)?;
    for step in STEPS.iter().skip(from as usize) {
        transaction.execute_batch(step).map_err(sql)?;
    }
    transaction
        .pragma_update(None, "application_id", APPLICATION_ID)
        .and_then(|()| transaction.pragma_update(None, "user_version", LATEST))
        .and_then(|()| transaction.commit())
        .map_err(sql)
}

/// Steps that the file has taken; refuses a stranger's file and one from the future.
///
/// All is read in one transaction: between two readings another process may have made the tables,
/// and a file with tables but without our mark would look like a stranger's.
pub(crate) fn level(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let snapshot = connection
        .unchecked_transaction()
        .map_err(|e| StoreError::sql("read the header", path, e))?;
    level_here(&snapshot, path)
}

/// The same inside a transaction of the caller's.
fn level_here(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let read = |query| {
        connection
            .query_row(query, [], |row| row.get::<_, i64>(0))
            .map_err(|e| StoreError::sql("read the header", path, e))
    };
    let found = read("PRAGMA user_version")?;
    let owner = read("PRAGMA application_id")?;
    let tables = read("SELECT count(*) FROM sqlite_schema")?;
    if owner != APPLICATION_ID && (tables > 0 || owner != 0) {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
        });
    }
    if found > LATEST {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found,
            known: LATEST,
        });
    }
    Ok(found.max(0))
}
