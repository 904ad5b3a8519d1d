#![forbid(unsafe_code)]
//! The results of many agents in ClickHouse, for programs that fill the shared database of a fleet:
//! [`ClickHouseSink`] stores what agents deliver.
//!
//! It uses one server, or a cluster of shards and replicas. Every table keeps one row per key, so
//! every delivery can be repeated. There are no transactions: see [`delivery_rows`] for what
//! replaces them. Results are read with SQL or Grafana (docs/decisions/0048).
//!
//! Calls block the calling thread. An async program must make them on a thread for blocking work.
//!
//! - [`database_client`], [`endpoint`]: requests, timeouts, failover between URLs
//! - [`clickhouse_schema`]: the oldest supported server, and the tables
//! - [`delivery_rows`]: inserts what an agent delivers
//! - [`table_rows`]: table rows and their versions

mod clickhouse_schema;
mod database_client;
mod delivery_rows;
mod endpoint;
mod table_rows;

pub use endpoint::ClickHouseOptions;

use database_client::{DatabaseClient, RETENTION_STEP_TIMEOUT};
use longhaul_model::report::v1::HostPair;
use longhaul_store::StoreError;
use longhaul_store::history_store::AgentDelivery;
use std::collections::HashSet;

/// The tables of runs, values and plans, each with its column of time.
const EXPIRING_TABLES: [(&str, &str); 4] =
    [("value", "at_us"), ("run", "at_us"), ("report", "at_us"), ("planned", "due_us")];

/// An open database.
pub struct ClickHouseSink {
    client: DatabaseClient,
    /// Pairs that this connection has already inserted.
    known_pairs: HashSet<HostPair>,
}

impl ClickHouseSink {
    /// Connects to the database and creates missing tables.
    ///
    /// Fails if no server answers, if the server is older than
    /// [`clickhouse_schema::MIN_VERSION`], if the user lacks a permission, or if a later longhaul
    /// created the tables.
    pub fn open(options: ClickHouseOptions) -> Result<ClickHouseSink, StoreError> {
        let client = DatabaseClient::new(options)?;
        clickhouse_schema::prepare_schema(&client)?;
        Ok(ClickHouseSink { client, known_pairs: HashSet::new() })
    }

    /// Stores a delivery of an agent, any part of which may have been delivered before. After an
    /// error the sender repeats the delivery, which completes it.
    pub fn receive(&mut self, delivery: &AgentDelivery) -> Result<(), StoreError> {
        let event_texts = delivery.validate()?;
        delivery_rows::insert_pairs(&self.client, &mut self.known_pairs, delivery)?;
        delivery_rows::insert_planned(&self.client, &delivery.planned)?;
        delivery_rows::insert_runs(&self.client, &delivery.runs)?;
        for (event, text) in delivery.events.iter().zip(&event_texts) {
            delivery_rows::insert_event(&self.client, event, text)?;
        }
        Ok(())
    }

    /// Deletes runs, values and plans that are older than `before_us`. Hourly values, events and
    /// the names of pairs are kept. The servers of a cluster delete in the background, and one that is
    /// down when it is back.
    pub fn delete_before(&self, before_us: i64) -> Result<(), StoreError> {
        for (table, column) in EXPIRING_TABLES {
            let table = match &self.client.options.cluster {
                Some(cluster) => {
                    let cluster = clickhouse_schema::quote_identifier(cluster);
                    format!("{table}_local ON CLUSTER {cluster}")
                }
                None => table.to_owned(),
            };
            let sql = format!("DELETE FROM {table} WHERE {column} < {before_us}");
            let sql = &self.client.options.adapt_statement(&sql);
            let delete = |at: clickhouse::Client| async move { at.query_raw(sql).execute().await };
            self.client.request_within(RETENTION_STEP_TIMEOUT, "delete old rows", |endpoint| {
                // The servers of a cluster are not waited for: one that is down would end the deletion.
                delete(endpoint.http.clone().with_setting("distributed_ddl_task_timeout", "0"))
            })?;
        }
        Ok(())
    }
}
