//! Runs that wait for a collector: kept until it says that it has them.
//!
//! An agent whose collector is away goes on storing; what is in the outbox is out of reach of
//! retention. The collector may get a run twice, and stores it once.

use super::landing;
use crate::archive::Archive;
use crate::error::StoreError;
use crate::watched::{Landed, WatchedRun, limits};
use rusqlite::Row;

/// A run on its way to the collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToSend {
    /// Later ones are greater.
    pub place: i64,
    pub run_id: String,
    pub at_us: i64,
    /// As JSON on one line.
    pub report: String,
    pub planned_id: Option<String>,
}

impl Archive {
    /// Appends runs, and in the same transaction puts the new ones into the outbox.
    pub fn append_to_send(&mut self, runs: &[WatchedRun]) -> Result<Landed, StoreError> {
        limits::runs(runs)?;
        self.write("store the runs", |to| landing::land(to, runs, true))
    }

    /// What the collector has not acknowledged, the earliest first, at most `limit`.
    pub fn to_send(&self, limit: u32) -> Result<Vec<ToSend>, StoreError> {
        self.read("read the runs to be sent", |from| {
            from.prepare_cached(
                "SELECT place, outbox.run, at_us, report, planned \
                 FROM outbox JOIN run ON run.id = outbox.run ORDER BY place LIMIT ?1",
            )?
            .query_map([limit], to_send)?
            .collect()
        })
    }

    /// The collector has everything up to this place. Says how many still wait.
    pub fn acknowledged(&mut self, place: i64) -> Result<u64, StoreError> {
        self.write("note what the collector has", |to| {
            to.execute("DELETE FROM outbox WHERE place <= ?1", [place])?;
            to.query_row("SELECT count(*) FROM outbox", [], |row| row.get(0))
        })
    }
}

fn to_send(row: &Row<'_>) -> rusqlite::Result<ToSend> {
    Ok(ToSend {
        place: row.get(0)?,
        run_id: row.get(1)?,
        at_us: row.get(2)?,
        report: row.get(3)?,
        planned_id: row.get(4)?,
    })
}
