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
    AgentDelivery, EventFilter, GridPair, IncomingRun, IngestResult, PlannedEntry, PlannedOutcome,
    PlannedRun, PlannedRunCounts, PlannedRunFilter, RetentionPolicy, RetentionResult, RunFilter,
    TimeRange, ingest_limits,
};
use crate::store_error::StoreError;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries};
use name_ids::NameIds;
use outbox::OutboxWriter;
use rusqlite::{Transaction, TransactionBehavior};

impl Archive {
    /// Stores finished runs with their values, all or none. A run that is already watched is not
    /// changed. A run that was stored by another command becomes watched: its report stays, and its
    /// pairs, values and planned run are added.
    pub fn append_runs(&mut self, runs: &[IncomingRun]) -> Result<IngestResult, StoreError> {
        ingest_limits::check_runs(runs)?;
        self.write_with_names("store the runs", |to, outbox, names| {
            run_ingest::ingest_runs(to, runs, outbox, names)
        })
    }

    /// Stores planned runs and returns the number of new ones. A known id is not changed.
    pub fn add_planned(&mut self, due: &[PlannedRun]) -> Result<u64, StoreError> {
        ingest_limits::check_planned(due)?;
        self.write_with_names("store planned runs", |to, outbox, names| {
            planned_table::insert_planned(to, due, outbox, names)
        })
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

    /// Returns planned runs, sorted by due time, earliest first.
    pub fn planned(&self, filter: &PlannedRunFilter) -> Result<Vec<PlannedEntry>, StoreError> {
        self.read("list planned runs", |from| planned_table::list_planned(from, filter, "ASC"))
    }

    /// Returns the latest due time of a planned run.
    pub fn last_planned_us(&self) -> Result<Option<i64>, StoreError> {
        self.read("find the last planned run", |from| {
            from.query_row("SELECT max(due_us) FROM planned", [], |row| row.get(0))
        })
    }

    /// Returns planned runs, sorted by due time, latest first.
    pub fn latest_planned(
        &self,
        filter: &PlannedRunFilter,
    ) -> Result<Vec<PlannedEntry>, StoreError> {
        self.read("list planned runs", |from| planned_table::list_planned(from, filter, "DESC"))
    }

    /// Returns the number of runs due in a range, by outcome. The counts add up to the total.
    pub fn planned_counts(&self, range: TimeRange) -> Result<PlannedRunCounts, StoreError> {
        self.read("count planned runs", |from| planned_table::count_planned(from, range))
    }

    /// Returns the values of one quantity of one pair, in time order; nothing for an unknown pair.
    ///
    /// Returns at most `at_most` points and buckets together; `at_most` is clamped to 2 and
    /// [`ingest_limits::MAX_SERIES_POINTS`]. Single values are returned if they are few enough and still stored;
    /// hourly buckets where only those are stored; otherwise buckets of equal length with the exact
    /// `min` and `max`. The median of a bucket is exact up to an hour; above that it is the median
    /// of the hourly medians, weighted by their samples.
    pub fn series(
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

    /// Returns the latest value of every known pair, sorted by name.
    pub fn grid(&self, quantity: PathQuantity) -> Result<Vec<GridPair>, StoreError> {
        self.read("read the grid", |from| history_queries::read_grid(from, quantity))
    }

    /// Returns every pair that has values or planned runs, sorted by name.
    pub fn pairs(&self) -> Result<Vec<HostPair>, StoreError> {
        self.read("list the pairs", name_ids::list_pairs)
    }

    /// Returns the report with exactly this id.
    pub fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        let text = self.report_json(run_id)?;
        text.map(|text| archived_report::parse_report(run_id, &text)).transpose()
    }

    /// Returns runs, newest first.
    pub fn runs(&self, filter: &RunFilter) -> Result<Vec<RunEntry>, StoreError> {
        self.read("list the runs", |from| history_queries::list_runs(from, filter))
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

    /// Returns events, the latest change first.
    pub fn events(&self, filter: &EventFilter) -> Result<Vec<ChangeEvent>, StoreError> {
        let texts =
            self.read("list the events", |from| event_table::list_event_json(from, filter))?;
        texts.iter().map(|text| event_table::parse_event(text)).collect()
    }

    /// Deletes data older than `keep`. Single values are deleted after their hour has been
    /// aggregated into the hourly series, which is kept for `hours`. Events are kept, and so are
    /// runs that are not watched, such as one that a person started.
    ///
    /// Works in steps, each of them consistent, so that others can write in between. The next call
    /// completes what an error interrupted.
    pub fn retain(
        &mut self,
        now_us: i64,
        keep: &RetentionPolicy,
    ) -> Result<RetentionResult, StoreError> {
        let mut removed = RetentionResult::default();
        retention::expire_values(self, now_us, keep.values, &mut removed)?;
        removed.hours = retention::expire_hours(self, now_us, keep.hours.max(keep.values))?;
        removed.reports = retention::expire_reports(self, now_us, keep.reports)?;
        removed.planned = retention::expire_planned(self, now_us, keep.planned)?;
        Ok(removed)
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
