#![forbid(unsafe_code)]
//! The archive of a fleet: the trait `longhaul_store::Watched` answered by ClickHouse.
//!
//! One server, or a cluster of shards and replicas. Values lie in the order of their series, and
//! every table keeps one row of each key, so that whatever is written may be written again. There
//! are no transactions: what stands in for them says [`landing`], and what is promised less than
//! by SQLite says docs/decisions/0019.
//!
//! A value blocks the thread that asks. In an async program that is a thread for blocking work.
//!
//! - [`options`]: which database, and as whom
//! - [`reach`], [`door`]: requests, deadlines, several URLs
//! - [`trouble`]: what can go wrong, and what to do
//! - [`version`], [`schema`]: what the server must be, and the tables
//! - [`landing`]: runs and values come in
//! - [`series`], [`grid`], [`runs`]: questions
//! - [`planned`], [`events`]: runs that are due, and what changed
//! - [`retention`]: what is old goes
//! - [`rows`], [`clock`]: rows of the tables, and which of two stays

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

/// Opens one connection to the database, and makes its tables where there are none.
pub fn open(options: Options) -> Result<Box<dyn Watched>, StoreError> {
    Ok(Box::new(ClickHouse::open(options)?))
}

/// An open database.
pub struct ClickHouse {
    reach: Reach,
    /// Pairs that this connection has written.
    known: HashSet<Pair>,
}

impl ClickHouse {
    /// Fails where no server answers, where it is older than [`version::FLOOR`], where the user
    /// may not, and where the tables are of a later longhaul.
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
        // Whoever asks gets the start of it back: it may be anything.
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
