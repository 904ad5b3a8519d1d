//! Prometheus metrics, as OpenMetrics 1.0 or in Prometheus's text format 0.0.4, by the `Accept`
//! header.
//!
//! Bounded: pairs and jobs come from the watch file, a host has at most 64 transfers, and at most
//! [`MAX_PAIRS`] of each are exported; the rest is counted. Built for each scrape; only the histogram of
//! durations has state in between.

mod metrics_registry;
pub mod otlp_export;

use super::ApiState;
use super::api_error::ApiError;
use super::metrics::metrics_registry::MetricsPage;
use super::query_params::QueryParams;
use crate::agent::export::read_wall_us;
use crate::agent::transfer_limit::remove_past_transfers;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::IntoResponse;
use longhaul_model::report::v1::ChangeEvent;
use longhaul_store::history_store::{EventFilter, MissedRunCount, SeriesReading};
use longhaul_store::{Archive, StoreError};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of pairs, and of jobs, with exported values.
const MAX_PAIRS: usize = 5000;
/// The maximum number of events that are counted.
const MAX_EVENTS: u32 = 10_000;
const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The archive data of one scrape.
pub struct MetricsSnapshot {
    bytes: u64,
    /// The newest value of each series, sorted by pair.
    newest: Vec<SeriesReading>,
    /// Events of single paths that have not recovered.
    open_events: Vec<ChangeEvent>,
    /// Runs of today without a result, by reason.
    missed_today: Vec<MissedRunCount>,
}

/// Prometheus metrics: the agent's counters, and the newest value of every pair. docs/api.md lists
/// them. The `Accept` header chooses OpenMetrics or Prometheus's text format.
#[utoipa::path(get, path = "/metrics", tag = "agent",
    responses((status = 200, description = "Metrics", content(
        (String = "application/openmetrics-text"),
        (String = "text/plain"),
    ))))]
pub async fn metrics(
    State(shared): State<Arc<ApiState>>,
    headers: HeaderMap,
    params: QueryParams,
) -> Result<impl IntoResponse, ApiError> {
    params.reject_rest()?;
    // The agent's own metrics do not depend on the archive.
    let stored = shared.archive.query(read_snapshot).await.ok();
    let figures = shared.state.read_counters();
    let page = MetricsPage::new(&shared.state, &figures, stored.as_ref());
    let accepts = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let (kind, text) = if accepts.contains("application/openmetrics-text") {
        (OPENMETRICS_TYPE, page.text())
    } else {
        (PROMETHEUS_TYPE, convert_to_text_format(&page.text()))
    };
    Ok(([(CONTENT_TYPE, kind), (VARY, "accept")], text))
}

fn read_snapshot(archive: &Archive) -> Result<MetricsSnapshot, StoreError> {
    let mut newest = archive.newest_readings()?;
    remove_past_transfers(&mut newest, |it| (&it.pair, Some(it.point.at_us)));
    let today = super::about::find_day_range(read_wall_us());
    let filter = EventFilter { is_open: true, ..EventFilter::newest(MAX_EVENTS) };
    let mut open_events = archive.events(&filter)?;
    open_events.retain(|event| event.shared.is_none());
    Ok(MetricsSnapshot {
        bytes: archive.disk_bytes()?,
        newest,
        open_events,
        missed_today: archive.planned_counts(today)?.reasons,
    })
}

/// Converts OpenMetrics text into Prometheus's text format 0.0.4, in which the names of counters and
/// of information end in `_total` and `_info` in comments too, and information is a gauge.
/// Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
fn convert_to_text_format(openmetrics: &str) -> String {
    let types =
        openmetrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: HashMap<&str, &str> = types.collect();
    let convert = |line: &str| {
        let Some(comment) = line.strip_prefix("# ") else {
            return Some(format!("{line}\n"));
        };
        let mut words = comment.splitn(3, ' ');
        let (kind, name, rest) = (words.next()?, words.next()?, words.next()?);
        let (ending, as_type) = match *types.get(name)? {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            other => ("", other),
        };
        let rest = match kind {
            "TYPE" => as_type,
            "HELP" => rest,
            _ => return None,
        };
        Some(format!("# {kind} {name}{ending} {rest}\n"))
    };
    openmetrics.lines().filter_map(convert).collect()
}
