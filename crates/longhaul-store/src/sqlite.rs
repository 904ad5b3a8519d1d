//! The history store of an agent in one SQLite file, which `longhaul report` reads as well.
//!
//! Every write is one transaction and durable when it returns (`synchronous = FULL`); readers do
//! not wait for it. A batch writes only its own values and marks the hours that they belong to.
//! Later batches aggregate a few marked hours each, and readers aggregate those that they need.
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
pub(crate) mod name_ids;
pub mod outbox;
mod planned_table;
mod retention;
mod run_ingest;
#[cfg(test)]
mod tests;

use crate::archive::{Archive, RunEntry};
use crate::archived_report;
use crate::history_store::{
    AgentDelivery, EventFilter, GridPair, HistoryStore, IncomingRun, IngestResult, PlannedEntry,
    PlannedOutcome, PlannedRun, PlannedRunCounts, PlannedRunFilter, RetentionPolicy,
    RetentionResult, RunFilter, StoreInfo, TimeRange, ingest_limits,
};
use crate::store_error::StoreError;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries};
use name_ids::NameIds;
use outbox::OutboxWriter;
use rusqlite::{Transaction, TransactionBehavior};

impl HistoryStore for Archive {
    fn append_runs(&mut self, runs: &[IncomingRun]) -> Result<IngestResult, StoreError> {
        ingest_limits::check_runs(runs)?;
        self.write_with_names("store the runs", |to, outbox, names| {
            run_ingest::ingest_runs(to, runs, outbox, names)
        })
    }

    fn add_planned(&mut self, due: &[PlannedRun]) -> Result<u64, StoreError> {
        ingest_limits::check_planned(due)?;
        self.write_with_names("store planned runs", |to, outbox, names| {
            planned_table::insert_planned(to, due, outbox, names)
        })
    }

    fn record_outcome(
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

    fn receive(&mut self, delivery: &AgentDelivery) -> Result<IngestResult, StoreError> {
        let texts = delivery.validate()?;
        self.write_with_names("store the batch of an agent", |to, outbox, names| {
            let planned: Vec<PlannedRun> =
                delivery.planned.iter().map(|row| row.planned.clone()).collect();
            planned_table::insert_planned(to, &planned, outbox, names)?;
            let landed = run_ingest::ingest_runs(to, &delivery.runs, outbox, names)?;
            for row in &delivery.planned {
                if let Some(outcome) = &row.outcome {
                    planned_table::record_outcome(to, &row.planned.id, outcome, outbox)?;
                }
            }
            for (event, text) in delivery.events.iter().zip(&texts) {
                event_table::put_event(to, event, text, outbox)?;
            }
            Ok(landed)
        })
    }

    fn planned(&self, filter: &PlannedRunFilter) -> Result<Vec<PlannedEntry>, StoreError> {
        self.read("list planned runs", |from| planned_table::list_planned(from, filter))
    }

    fn planned_counts(&self, range: TimeRange) -> Result<PlannedRunCounts, StoreError> {
        self.read("count planned runs", |from| planned_table::count_planned(from, range))
    }

    fn series(
        &self,
        pair: &HostPair,
        quantity: PathQuantity,
        range: TimeRange,
        at_most: u32,
    ) -> Result<QuantitySeries, StoreError> {
        let at_most = at_most.clamp(2, ingest_limits::MAX_SERIES_POINTS);
        let (points, buckets) =
            self.read("read the series", |from| {
                match name_ids::find_series(from, pair, quantity)? {
                    Some(series) => history_queries::read_series(from, series, range, at_most),
                    None => Ok((Vec::new(), Vec::new())),
                }
            })?;
        Ok(QuantitySeries { pair: pair.clone(), quantity, points, buckets })
    }

    fn grid(&self, quantity: PathQuantity) -> Result<Vec<GridPair>, StoreError> {
        self.read("read the grid", |from| history_queries::read_grid(from, quantity))
    }

    fn pairs(&self) -> Result<Vec<HostPair>, StoreError> {
        self.read("list the pairs", name_ids::list_pairs)
    }

    fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        match self.report_json(run_id) {
            Ok(text) => archived_report::parse_report(run_id, &text).map(Some),
            Err(StoreError::NoSuchRun { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<RunEntry>, StoreError> {
        self.read("list the runs", |from| history_queries::list_runs(from, filter))
    }

    fn put_event(&mut self, event: &ChangeEvent) -> Result<(), StoreError> {
        let text = serialize_event(event)?;
        let outbox = self.outbox_writer();
        self.write("store the event", |to| event_table::put_event(to, event, &text, outbox))
    }

    fn event(&self, id: &str) -> Result<Option<ChangeEvent>, StoreError> {
        let text = self.read("read the event", |from| event_table::read_event_json(from, id))?;
        text.map(|text| event_table::parse_event(&text)).transpose()
    }

    fn events(&self, filter: &EventFilter) -> Result<Vec<ChangeEvent>, StoreError> {
        let texts =
            self.read("list the events", |from| event_table::list_event_json(from, filter))?;
        texts.iter().map(|text| event_table::parse_event(text)).collect()
    }

    fn retain(
        &mut self,
        now_us: i64,
        keep: &RetentionPolicy,
    ) -> Result<RetentionResult, StoreError> {
        let mut removed = RetentionResult::default();
        retention::expire_values(self, now_us, keep.values, &mut removed)?;
        retention::expire_hours(self, now_us, keep.hours.max(keep.values), &mut removed)?;
        retention::expire_reports(self, now_us, keep.reports, &mut removed)?;
        retention::expire_planned(self, now_us, keep.planned, &mut removed)?;
        Ok(removed)
    }

    fn about(&self) -> Result<StoreInfo, StoreError> {
        let bytes: i64 = self.read("read the header", |from| {
            from.query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get(0),
            )
        })?;
        Ok(StoreInfo { kind: "SQLite", bytes: u64::try_from(bytes).ok() })
    }
}

impl AgentDelivery {
    /// Checks all limits and returns the JSON of the events.
    fn validate(&self) -> Result<Vec<String>, StoreError> {
        ingest_limits::check_runs(&self.runs)?;
        for row in &self.planned {
            ingest_limits::check_planned(std::slice::from_ref(&row.planned))?;
            row.outcome.as_ref().map_or(Ok(()), ingest_limits::check_outcome)?;
        }
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
    fn write<T>(
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

    /// Runs `work` in a write transaction, with the outbox and the cached ids.
    fn write_with_names<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>, OutboxWriter, &mut NameIds) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let outbox = self.outbox_writer();
        // If the transaction fails, the cache is dropped and filled again.
        let mut names = std::mem::take(&mut self.name_ids);
        let done = self.write(doing, |to| work(to, outbox, &mut names))?;
        self.name_ids = names.limit_size();
        Ok(done)
    }

    /// Runs `work` on a consistent snapshot.
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let sql = |e| StoreError::from_sqlite(doing, &self.path, e);
        let snapshot = self.connection.unchecked_transaction().map_err(sql)?;
        work(&snapshot).map_err(sql)
    }
}
