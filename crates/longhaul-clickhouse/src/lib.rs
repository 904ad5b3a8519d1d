#![forbid(unsafe_code)]
//! The history store of a fleet: `longhaul_store::Watched` on ClickHouse.
//!
//! It uses one server, or a cluster of shards and replicas. Values are sorted by series, and every
//! table keeps one row per key, so every write can be repeated. There are no transactions: see
//! [`landing`] for what replaces them, and docs/decisions/0019 for the guarantees that are weaker
//! than those of SQLite.
//!
//! Calls block the calling thread. An async program must make them on a thread for blocking work.
//!
//! - [`options`]: connection settings
//! - [`reach`], [`door`]: requests, timeouts, failover between URLs
//! - [`trouble`]: errors and hints
//! - [`version`], [`schema`]: the oldest supported server, and the tables
//! - [`landing`]: inserts runs and values
//! - [`series`], [`grid`], [`runs`]: queries
//! - [`planned`], [`events`]: planned runs and events
//! - [`retention`]: deletes expired data
//! - [`rows`], [`clock`]: table rows and their versions

mod clock;
mod door;
mod events;
mod grid;
mod landing;
pub mod options;
mod planned;
mod reach;
mod retention;
mod rows;
mod runs;
mod schema;
mod series;
mod trouble;
pub mod version;

pub use options::{Dialect, Options};

use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Series};
use longhaul_store::archive::Entry;
use longhaul_store::watched::{
    About, Delivery, EventFilter, GridCell, Landed, Outcome, Planned, PlannedCounts, PlannedFilter,
    PlannedRow, Range, Removed, Retention, RunFilter, WatchedRun, limits,
};
use longhaul_store::{StoreError, Watched};
use reach::Reach;
use std::collections::HashSet;

/// Connects to the database and creates missing tables.
pub fn open(options: Options) -> Result<Box<dyn Watched>, StoreError> {
    Ok(Box::new(ClickHouse::open(options)?))
}

/// An open database.
pub struct ClickHouse {
    reach: Reach,
    /// Pairs that this connection has already inserted.
    known: HashSet<Pair>,
}

impl ClickHouse {
    /// Fails if no server answers, if the server is older than [`version::FLOOR`], if the user
    /// lacks a permission, or if a later longhaul created the tables.
    pub fn open(options: Options) -> Result<ClickHouse, StoreError> {
        let reach = Reach::new(options)?;
        schema::prepare(&reach)?;
        Ok(ClickHouse {
            reach,
            known: HashSet::new(),
        })
    }
}

impl Watched for ClickHouse {
    fn append_runs(&mut self, runs: &[WatchedRun]) -> Result<Landed, StoreError> {
        limits::runs(runs)?;
        landing::land(&self.reach, &mut self.known, runs)
    }

    fn plan(&mut self, due: &[Planned]) -> Result<u64, StoreError> {
        limits::planned(due)?;
        let pairs = due.iter().filter_map(|it| it.pair.as_ref());
        landing::note_pairs(&self.reach, &mut self.known, pairs)?;
        planned::plan(&self.reach, due)
    }

    fn settle(&mut self, planned_id: &str, outcome: &Outcome) -> Result<(), StoreError> {
        limits::outcome(outcome)?;
        // The error repeats only the start of the id, which may be arbitrarily long.
        let id: String = planned_id.chars().take(limits::ID_BYTES_MAX).collect();
        if id == planned_id && planned::settle(&self.reach, &[(&id, outcome.clone())])? > 0 {
            return Ok(());
        }
        Err(StoreError::NoSuchPlanned { id })
    }

    fn receive(&mut self, delivery: &Delivery) -> Result<Landed, StoreError> {
        let planned = &delivery.planned;
        let due: Vec<Planned> = planned.iter().map(|row| row.planned.clone()).collect();
        limits::planned(&due)?;
        let outcomes = planned.iter().filter_map(|row| row.outcome.as_ref());
        outcomes.into_iter().try_for_each(limits::outcome)?;
        let pairs = due.iter().filter_map(|it| it.pair.as_ref());
        landing::note_pairs(&self.reach, &mut self.known, pairs)?;
        planned::deliver(&self.reach, planned)?;
        let landed = self.append_runs(&delivery.runs)?;
        for event in &delivery.events {
            self.put_event(event)?;
        }
        Ok(landed)
    }

    fn planned(&self, filter: &PlannedFilter) -> Result<Vec<PlannedRow>, StoreError> {
        planned::rows(&self.reach, filter)
    }

    fn planned_counts(&self, range: Range) -> Result<PlannedCounts, StoreError> {
        planned::counts(&self.reach, range)
    }

    fn series(
        &self,
        pair: &Pair,
        quantity: Quantity,
        range: Range,
        at_most: u32,
    ) -> Result<Series, StoreError> {
        let at_most = at_most.clamp(2, limits::SERIES_MAX);
        let (points, buckets) = series::series(&self.reach, (pair, quantity), range, at_most)?;
        Ok(Series {
            pair: pair.clone(),
            quantity,
            points,
            buckets,
        })
    }

    fn grid(&self, quantity: Quantity) -> Result<Vec<GridCell>, StoreError> {
        grid::grid(&self.reach, quantity)
    }

    fn pairs(&self) -> Result<Vec<Pair>, StoreError> {
        grid::pairs(&self.reach)
    }

    fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        runs::report(&self.reach, run_id)
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<Entry>, StoreError> {
        runs::runs(&self.reach, filter)
    }

    fn put_event(&mut self, event: &Event) -> Result<(), StoreError> {
        let text = serde_json::to_string(event).map_err(|source| StoreError::Report {
            id: event.id.clone(),
            source,
        })?;
        limits::event(event, &text)?;
        let pair = std::iter::once(&event.pair);
        landing::note_pairs(&self.reach, &mut self.known, pair)?;
        events::put(&self.reach, event, &text)
    }

    fn event(&self, id: &str) -> Result<Option<Event>, StoreError> {
        events::one(&self.reach, id)
    }

    fn events(&self, filter: &EventFilter) -> Result<Vec<Event>, StoreError> {
        events::list(&self.reach, filter)
    }

    fn retain(&mut self, now_us: i64, keep: &Retention) -> Result<Removed, StoreError> {
        retention::retain(&self.reach, now_us, keep)
    }

    fn about(&self) -> Result<About, StoreError> {
        Ok(About {
            kind: "ClickHouse",
            bytes: schema::bytes(&self.reach)?,
        })
    }
}
