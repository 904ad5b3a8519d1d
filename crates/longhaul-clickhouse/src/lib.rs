#![forbid(unsafe_code)]
//! The trait `HistoryStore` of `longhaul-store` on ClickHouse, for programs that fill or read the
//! shared database of many agents.
//!
//! It uses one server, or a cluster of shards and replicas. Values are sorted by series, and every
//! table keeps one row per key, so every write can be repeated. There are no transactions: see
//! [`run_insert`] for what replaces them, and docs/decisions/0019 for the guarantees that are weaker
//! than those of SQLite.
//!
//! Calls block the calling thread. An async program must make them on a thread for blocking work.
//!
//! - [`connection_options`]: connection settings
//! - [`database_client`], [`endpoint`]: requests, timeouts, failover between URLs
//! - [`request_error`]: errors and hints
//! - [`server_version`], [`clickhouse_schema`]: the oldest supported server, and the tables
//! - [`run_insert`]: inserts runs and values
//! - [`series_query`], [`grid_query`], [`run_queries`]: queries
//! - [`planned_run_rows`], [`event_queries`]: planned runs and events
//! - [`expiry`]: deletes expired data
//! - [`table_rows`], [`row_version`]: table rows and their versions

mod clickhouse_schema;
pub mod connection_options;
mod database_client;
mod endpoint;
mod event_queries;
mod expiry;
mod grid_query;
mod planned_run_rows;
mod request_error;
mod row_version;
mod run_insert;
mod run_queries;
mod series_query;
pub mod server_version;
mod table_rows;

pub use connection_options::{ClickHouseOptions, SqlDialect};

use database_client::DatabaseClient;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries};
use longhaul_store::archive::RunEntry;
use longhaul_store::history_store::{
    AgentDelivery, EventFilter, GridPair, IncomingRun, IngestResult, PlannedEntry, PlannedOutcome,
    PlannedRun, PlannedRunCounts, PlannedRunFilter, RetentionPolicy, RetentionResult, RunFilter,
    StoreInfo, TimeRange, ingest_limits,
};
use longhaul_store::{HistoryStore, StoreError};
use std::collections::HashSet;

/// Connects to the database and creates missing tables.
pub fn open_history_store(options: ClickHouseOptions) -> Result<Box<dyn HistoryStore>, StoreError> {
    Ok(Box::new(ClickHouseStore::open(options)?))
}

/// An open database.
pub struct ClickHouseStore {
    client: DatabaseClient,
    /// Pairs that this connection has already inserted.
    known_pairs: HashSet<HostPair>,
}

impl ClickHouseStore {
    /// Fails if no server answers, if the server is older than [`server_version::MIN_VERSION`], if the user
    /// lacks a permission, or if a later longhaul created the tables.
    pub fn open(options: ClickHouseOptions) -> Result<ClickHouseStore, StoreError> {
        let client = DatabaseClient::new(options)?;
        clickhouse_schema::prepare_schema(&client)?;
        Ok(ClickHouseStore { client, known_pairs: HashSet::new() })
    }
}

impl HistoryStore for ClickHouseStore {
    fn append_runs(&mut self, runs: &[IncomingRun]) -> Result<IngestResult, StoreError> {
        ingest_limits::check_runs(runs)?;
        run_insert::insert_runs(&self.client, &mut self.known_pairs, runs)
    }

    fn add_planned(&mut self, due: &[PlannedRun]) -> Result<u64, StoreError> {
        ingest_limits::check_planned(due)?;
        let pairs = due.iter().filter_map(|it| it.pair.as_ref());
        run_insert::insert_pairs(&self.client, &mut self.known_pairs, pairs)?;
        planned_run_rows::insert_planned(&self.client, due)
    }

    fn record_outcome(
        &mut self,
        planned_id: &str,
        outcome: &PlannedOutcome,
    ) -> Result<(), StoreError> {
        ingest_limits::check_outcome(outcome)?;
        // The error repeats only the start of the id, which may be arbitrarily long.
        let id: String = planned_id.chars().take(ingest_limits::MAX_ID_BYTES).collect();
        if id == planned_id
            && planned_run_rows::record_outcomes(&self.client, &[(&id, outcome.clone())])? > 0
        {
            return Ok(());
        }
        Err(StoreError::NoSuchPlanned { id })
    }

    fn receive(&mut self, delivery: &AgentDelivery) -> Result<IngestResult, StoreError> {
        let planned = &delivery.planned;
        let due: Vec<PlannedRun> = planned.iter().map(|row| row.planned.clone()).collect();
        ingest_limits::check_planned(&due)?;
        let outcomes = planned.iter().filter_map(|row| row.outcome.as_ref());
        outcomes.into_iter().try_for_each(ingest_limits::check_outcome)?;
        let pairs = due.iter().filter_map(|it| it.pair.as_ref());
        run_insert::insert_pairs(&self.client, &mut self.known_pairs, pairs)?;
        planned_run_rows::upsert_planned(&self.client, planned)?;
        let landed = self.append_runs(&delivery.runs)?;
        for event in &delivery.events {
            self.put_event(event)?;
        }
        Ok(landed)
    }

    fn planned(&self, filter: &PlannedRunFilter) -> Result<Vec<PlannedEntry>, StoreError> {
        planned_run_rows::list_planned(&self.client, filter)
    }

    fn planned_counts(&self, range: TimeRange) -> Result<PlannedRunCounts, StoreError> {
        planned_run_rows::count_planned(&self.client, range)
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
            series_query::read_series(&self.client, (pair, quantity), range, at_most)?;
        Ok(QuantitySeries { pair: pair.clone(), quantity, points, buckets })
    }

    fn grid(&self, quantity: PathQuantity) -> Result<Vec<GridPair>, StoreError> {
        grid_query::read_grid(&self.client, quantity)
    }

    fn pairs(&self) -> Result<Vec<HostPair>, StoreError> {
        grid_query::list_pairs(&self.client)
    }

    fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        run_queries::read_report(&self.client, run_id)
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<RunEntry>, StoreError> {
        run_queries::list_runs(&self.client, filter)
    }

    fn put_event(&mut self, event: &ChangeEvent) -> Result<(), StoreError> {
        let text = serde_json::to_string(event)
            .map_err(|source| StoreError::Report { id: event.id.clone(), source })?;
        ingest_limits::check_event(event, &text)?;
        let pair = std::iter::once(&event.pair);
        run_insert::insert_pairs(&self.client, &mut self.known_pairs, pair)?;
        event_queries::insert_event(&self.client, event, &text)
    }

    fn event(&self, id: &str) -> Result<Option<ChangeEvent>, StoreError> {
        event_queries::read_event(&self.client, id)
    }

    fn events(&self, filter: &EventFilter) -> Result<Vec<ChangeEvent>, StoreError> {
        event_queries::list_events(&self.client, filter)
    }

    fn retain(
        &mut self,
        now_us: i64,
        keep: &RetentionPolicy,
    ) -> Result<RetentionResult, StoreError> {
        expiry::apply_retention(&self.client, now_us, keep)
    }

    fn about(&self) -> Result<StoreInfo, StoreError> {
        Ok(StoreInfo {
            kind: "ClickHouse",
            bytes: clickhouse_schema::read_disk_bytes(&self.client)?,
        })
    }
}
