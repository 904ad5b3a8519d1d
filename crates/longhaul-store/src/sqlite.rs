//! The history store of an agent in one SQLite file, which `longhaul report` reads as well.
//!
//! Every write is one transaction and durable when it returns (`synchronous = FULL`); readers do
//! not wait for it. A batch writes only its own values. Readers aggregate hours from their values;
//! retention stores the aggregate of an hour when it deletes the values.
//!
//! - [`name_ids`]: ids of pairs and series
//! - [`run_ingest`]: inserts runs and values
//! - [`hourly_series`]: the hourly series
//! - [`history_queries`]: queries of series, grid and runs
//! - [`planned_table`]: planned runs
//! - [`event_table`] stores events
//! - [`retention`]: deletes expired data
//! - [`outbox`]: items that the collector has not acknowledged

mod event_table;
mod history_queries;
mod hourly_series;
mod name_ids;
pub mod outbox;
mod planned_table;
mod retention;
mod run_ingest;
#[cfg(test)]
mod tests;

use crate::archive::Archive;
use crate::archived_report;
use crate::history_store::{
    AgentDelivery, IncomingRun, IngestResult, PlannedOutcome, PlannedRun, ingest_limits,
};
use crate::store_error::StoreError;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::ChangeEvent;
use rusqlite::{Transaction, TransactionBehavior};

impl Archive {
    /// Stores finished runs with their values, all or none. A run that is already watched is not
    /// changed. A run that was stored by another command becomes watched: its report stays, and its
    /// pairs, values and planned run are added.
    pub fn append_runs(&mut self, runs: &[IncomingRun]) -> Result<IngestResult, StoreError> {
        ingest_limits::check_runs(runs)?;
        let outbox = self.outbox_writer();
        self.write("store the runs", |to| run_ingest::ingest_runs(to, runs, outbox))
    }

    /// Stores planned runs without outcomes and returns the number of new ones. A known id is not
    /// changed.
    pub fn add_planned(&mut self, due: &[PlannedRun]) -> Result<u64, StoreError> {
        ingest_limits::check_planned(due)?;
        let outbox = self.outbox_writer();
        self.write("store planned runs", |to| planned_table::insert_planned(to, due, outbox))
    }

    /// Stores the outcome of a planned run. A done run stays done; a missed one becomes done if its
    /// result arrives later; of two reasons the first one is kept.
    ///
    /// Returns [`StoreError::NoSuchPlanned`] if no run is planned under this id.
    pub fn record_outcome(
        &mut self,
        planned_id: &str,
        outcome: &PlannedOutcome,
    ) -> Result<(), StoreError> {
        ingest_limits::check_outcome(outcome)?;
        let outbox = self.outbox_writer();
        let known = self.write("store the outcome of the planned run", |to| {
            planned_table::record_outcome(to, planned_id, outcome, outbox)
        })?;
        if known {
            return Ok(());
        }
        // The error repeats only the start of the id, which may be arbitrarily long.
        Err(StoreError::NoSuchPlanned {
            id: planned_id.chars().take(ingest_limits::MAX_ID_BYTES).collect(),
        })
    }

    /// Stores a delivery of another agent. Any part of it may have been delivered before.
    pub fn receive(&mut self, delivery: &AgentDelivery) -> Result<IngestResult, StoreError> {
        let texts = delivery.validate()?;
        let outbox = self.outbox_writer();
        self.write("store the batch of an agent", |to| {
            planned_table::insert_planned(to, &delivery.planned, outbox)?;
            let landed = run_ingest::ingest_runs(to, &delivery.runs, outbox)?;
            for row in &delivery.planned {
                if let Some(outcome) = &row.outcome {
                    planned_table::record_outcome(to, &row.id, outcome, outbox)?;
                }
            }
            for (event, text) in delivery.events.iter().zip(&texts) {
                event_table::put_event(to, event, text, outbox)?;
            }
            Ok(landed)
        })
    }

    /// Returns the report with exactly this id.
    pub fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        let text = self.report_json(run_id)?;
        text.map(|text| archived_report::parse_report(run_id, &text)).transpose()
    }

    /// Stores an event and replaces an earlier one with the same id.
    pub fn put_event(&mut self, event: &ChangeEvent) -> Result<(), StoreError> {
        let text = serialize_event(event)?;
        let outbox = self.outbox_writer();
        self.write("store the event", |to| event_table::put_event(to, event, &text, outbox))
    }

    /// Returns the event with exactly this id.
    pub fn event(&self, id: &str) -> Result<Option<ChangeEvent>, StoreError> {
        let text = self.read("read the event", |from| event_table::read_event_json(from, id))?;
        text.map(|text| event_table::parse_event(&text)).transpose()
    }

    /// Returns the size of the archive on disk.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        self.read("read the header", |from| {
            from.query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get(0),
            )
        })
    }
}

impl AgentDelivery {
    /// Checks all limits and returns the JSON of the events.
    pub fn validate(&self) -> Result<Vec<String>, StoreError> {
        ingest_limits::check_runs(&self.runs)?;
        ingest_limits::check_planned(&self.planned)?;
        self.events.iter().map(serialize_event).collect()
    }
}

/// Returns an event as JSON, within the limits.
fn serialize_event(event: &ChangeEvent) -> Result<String, StoreError> {
    let text = serde_json::to_string(event)
        .map_err(|source| StoreError::Report { id: event.id.clone(), source })?;
    ingest_limits::check_event(event, &text)?;
    Ok(text)
}

impl Archive {
    /// Runs `work` in one transaction that takes the write lock immediately.
    pub(crate) fn write<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let sql = |e| StoreError::from_sqlite(doing, &self.path, e);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sql)?;
        let done = work(&transaction).map_err(sql)?;
        transaction.commit().map_err(sql)?;
        Ok(done)
    }

    /// Runs `work` on a consistent snapshot.
    pub(crate) fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let sql = |e| StoreError::from_sqlite(doing, &self.path, e);
        let snapshot = self.connection.unchecked_transaction().map_err(sql)?;
        work(&snapshot).map_err(sql)
    }
}
