//! The history store of an agent in one SQLite file, which `longhaul report` reads as well.
//!
//! Every write is one transaction and durable when it returns (`synchronous = FULL`); readers do
//! not wait for it. A batch writes only its own values and marks the hours that they belong to.
//! Later batches aggregate a few marked hours each, and readers aggregate those that they need.
//!
//! - [`names`]: ids of pairs and series
//! - [`landing`]: inserts runs and values
//! - [`hours`]: the hourly series
//! - [`reading`]: queries of series, grid and runs
//! - [`planned`]: planned runs
//! - [`events`]: events
//! - [`retention`]: deletes expired data
//! - [`outbox`]: items that the collector has not acknowledged

mod events;
mod hours;
mod landing;
pub(crate) mod names;
pub mod outbox;
mod planned;
mod reading;
mod retention;
#[cfg(test)]
mod tests;

use crate::archive::{Archive, Entry};
use crate::error::StoreError;
use crate::filed;
use crate::watched::{
    About, Delivery, EventFilter, GridCell, Landed, Outcome, Planned, PlannedCounts, PlannedFilter,
    PlannedRow, Range, Removed, Retention, RunFilter, Watched, WatchedRun, limits,
};
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Series};
use names::Names;
use outbox::Outbox;
use rusqlite::{Transaction, TransactionBehavior};

impl Watched for Archive {
    fn append_runs(&mut self, runs: &[WatchedRun]) -> Result<Landed, StoreError> {
        limits::runs(runs)?;
        self.write_named("store the runs", |to, with| landing::land(to, runs, with))
    }

    fn plan(&mut self, due: &[Planned]) -> Result<u64, StoreError> {
        limits::planned(due)?;
        self.write_named("note planned runs", |to, with| planned::plan(to, due, with))
    }

    fn settle(&mut self, planned_id: &str, outcome: &Outcome) -> Result<(), StoreError> {
        limits::outcome(outcome)?;
        let outbox = self.outbox();
        let known = self.write("settle the planned run", |to| {
            planned::settle(to, planned_id, outcome, outbox)
        })?;
        if known {
            return Ok(());
        }
        // The error repeats only the start of the id, which may be arbitrarily long.
        Err(StoreError::NoSuchPlanned {
            id: planned_id.chars().take(limits::ID_BYTES_MAX).collect(),
        })
    }

    fn receive(&mut self, delivery: &Delivery) -> Result<Landed, StoreError> {
        let texts = delivery.checked()?;
        self.write_named("store what an agent sent", |to, (outbox, names)| {
            let planned: Vec<Planned> = delivery
                .planned
                .iter()
                .map(|row| row.planned.clone())
                .collect();
            planned::plan(to, &planned, (outbox, &mut *names))?;
            let landed = landing::land(to, &delivery.runs, (outbox, &mut *names))?;
            for row in &delivery.planned {
                if let Some(outcome) = &row.outcome {
                    planned::settle(to, &row.planned.id, outcome, outbox)?;
                }
            }
            for (event, text) in delivery.events.iter().zip(&texts) {
                events::put(to, event, text, outbox)?;
            }
            Ok(landed)
        })
    }

    fn planned(&self, filter: &PlannedFilter) -> Result<Vec<PlannedRow>, StoreError> {
        self.read("list planned runs", |from| planned::rows(from, filter))
    }

    fn planned_counts(&self, range: Range) -> Result<PlannedCounts, StoreError> {
        self.read("count planned runs", |from| planned::counts(from, range))
    }

    fn series(
        &self,
        pair: &Pair,
        quantity: Quantity,
        range: Range,
        at_most: u32,
    ) -> Result<Series, StoreError> {
        let at_most = at_most.clamp(2, limits::SERIES_MAX);
        let (points, buckets) = self.read("read the series", |from| {
            match names::series(from, pair, quantity)? {
                Some(series) => reading::series(from, series, range, at_most),
                None => Ok((Vec::new(), Vec::new())),
            }
        })?;
        Ok(Series {
            pair: pair.clone(),
            quantity,
            points,
            buckets,
        })
    }

    fn grid(&self, quantity: Quantity) -> Result<Vec<GridCell>, StoreError> {
        self.read("read the grid", |from| reading::grid(from, quantity))
    }

    fn pairs(&self) -> Result<Vec<Pair>, StoreError> {
        self.read("list the pairs", names::pairs)
    }

    fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        match self.text(run_id) {
            Ok(text) => filed::parse(run_id, &text).map(Some),
            Err(StoreError::NoSuchRun { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<Entry>, StoreError> {
        self.read("list the runs", |from| reading::runs(from, filter))
    }

    fn put_event(&mut self, event: &Event) -> Result<(), StoreError> {
        let text = event_text(event)?;
        let outbox = self.outbox();
        self.write("store the event", |to| {
            events::put(to, event, &text, outbox)
        })
    }

    fn event(&self, id: &str) -> Result<Option<Event>, StoreError> {
        let text = self.read("read the event", |from| events::text(from, id))?;
        text.map(|text| events::parse(&text)).transpose()
    }

    fn events(&self, filter: &EventFilter) -> Result<Vec<Event>, StoreError> {
        let texts = self.read("list the events", |from| events::texts(from, filter))?;
        texts.iter().map(|text| events::parse(text)).collect()
    }

    fn retain(&mut self, now_us: i64, keep: &Retention) -> Result<Removed, StoreError> {
        let mut removed = Removed::default();
        retention::values(self, now_us, keep.values, &mut removed)?;
        retention::hours(self, now_us, keep.hours.max(keep.values), &mut removed)?;
        retention::reports(self, now_us, keep.reports, &mut removed)?;
        retention::planned(self, now_us, keep.planned, &mut removed)?;
        Ok(removed)
    }

    fn about(&self) -> Result<About, StoreError> {
        let bytes: i64 = self.read("read the header", |from| {
            from.query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get(0),
            )
        })?;
        Ok(About {
            kind: "SQLite",
            bytes: u64::try_from(bytes).ok(),
        })
    }
}

impl Delivery {
    /// Checks all limits and returns the JSON of the events.
    fn checked(&self) -> Result<Vec<String>, StoreError> {
        limits::runs(&self.runs)?;
        for row in &self.planned {
            limits::planned(std::slice::from_ref(&row.planned))?;
            row.outcome.as_ref().map_or(Ok(()), limits::outcome)?;
        }
        self.events.iter().map(event_text).collect()
    }
}

/// Returns an event as JSON, within the limits.
fn event_text(event: &Event) -> Result<String, StoreError> {
    let text = serde_json::to_string(event).map_err(|source| StoreError::Report {
        id: event.id.clone(),
        source,
    })?;
    limits::event(event, &text)?;
    Ok(text)
}

impl Archive {
    /// Runs `work` in one transaction that takes the write lock immediately.
    fn write<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let sql = |e| StoreError::sql(doing, &self.path, e);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sql)?;
        let done = work(&transaction).map_err(sql)?;
        transaction.commit().map_err(sql)?;
        Ok(done)
    }

    /// Runs `work` in a write transaction, with the outbox and the cached ids.
    fn write_named<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>, (Outbox, &mut Names)) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let outbox = self.outbox();
        // If the transaction fails, the cache is dropped and filled again.
        let mut names = std::mem::take(&mut self.names);
        let done = self.write(doing, |to| work(to, (outbox, &mut names)))?;
        self.names = names.bounded();
        Ok(done)
    }

    /// Runs `work` on a consistent snapshot.
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let sql = |e| StoreError::sql(doing, &self.path, e);
        let snapshot = self.connection.unchecked_transaction().map_err(sql)?;
        work(&snapshot).map_err(sql)
    }
}
