//! Prometheus metrics as OpenMetrics text.
//!
//! Bounded: pairs come from the watch file, and at most [`MAX_PAIRS`] of them are exported; the rest is
//! counted. Built for each scrape, without state in between.

mod metrics_registry;

use super::ApiState;
use super::api_error::ApiError;
use super::metrics::metrics_registry::MetricsPage;
use super::query_params::QueryParams;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use longhaul_model::report::v1;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::history_store::{EventFilter, GridPair, TimeRange};
use longhaul_store::{Archive, StoreError};
use std::sync::Arc;

/// The maximum number of pairs with exported values.
const MAX_PAIRS: usize = 5000;
/// The maximum number of events that are counted.
const MAX_EVENTS: u32 = 10_000;
const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The archive data of one scrape.
pub struct MetricsSnapshot {
    bytes: u64,
    grids: Vec<(PathQuantity, Vec<GridPair>)>,
    /// The number of open events, by state.
    suspected: u64,
    confirmed: u64,
}

/// Prometheus metrics: the agent's counters, and the newest value of every pair. docs/api.md lists
/// them.
#[utoipa::path(get, path = "/metrics", tag = "agent",
    responses((status = 200, description = "OpenMetrics text", content_type = "application/openmetrics-text", body = String)))]
pub async fn metrics(
    State(shared): State<Arc<ApiState>>,
    params: QueryParams,
) -> Result<impl IntoResponse, ApiError> {
    params.reject_rest()?;
    // The agent's own metrics do not depend on the archive.
    let stored = shared.archive.query(read_snapshot).await.ok();
    let figures = shared.state.read_counters();
    let text = MetricsPage::new(&figures, stored.as_ref(), shared.state.started_us).text();
    Ok(([(CONTENT_TYPE, OPENMETRICS_TYPE)], text))
}

fn read_snapshot(archive: &Archive) -> Result<MetricsSnapshot, StoreError> {
    let grid = |quantity| Ok((quantity, archive.grid(quantity)?));
    Ok(MetricsSnapshot {
        bytes: archive.disk_bytes()?,
        grids: PathQuantity::ALL.into_iter().map(grid).collect::<Result<_, StoreError>>()?,
        suspected: count_open_events(archive, v1::EventState::Suspected)?,
        confirmed: count_open_events(archive, v1::EventState::Confirmed)?,
    })
}

fn count_open_events(archive: &Archive, state: v1::EventState) -> Result<u64, StoreError> {
    let events = archive.events(&EventFilter {
        range: TimeRange::ALL,
        pair: None,
        state: Some(state),
        limit: MAX_EVENTS,
    })?;
    let open = events.iter().filter(|it| longhaul_store::history_store::is_event_open(it));
    Ok(open.count() as u64)
}
