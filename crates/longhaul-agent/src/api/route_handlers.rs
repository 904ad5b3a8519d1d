//! The routes of a pair over time, with the same numbers as `longhaul report routes`.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{QueryParams, QueryRange};
use super::shape::{RouteHop, RouteRow};
use crate::path_traces::{self, parse_time_us};
use crate::watch::watch_file::WatchFile;
use axum::Json;
use axum::extract::State;
use longhaul_analysis::path::trace_table::{self, TraceEntry};
use longhaul_model::report::v1::{HostPair, PathReport};
use longhaul_store::history_store::TimeRange;
use longhaul_store::{Archive, StoreError};
use std::collections::HashMap;
use std::sync::Arc;

/// Routes of one pair in chronological order: one row for each stretch in which all traces have the
/// same route.
#[utoipa::path(get, path = "/api/v1/routes", tag = "mesh",
    params(
        ("from" = String, Query, description = "Sender", min_length = 1, max_length = 255),
        ("to" = String, Query, description = "Receiver", min_length = 1, max_length = 255),
        QueryRange,
    ),
    responses((status = 200, description = "Periods of time, each with its route", body = Vec<RouteRow>)))]
pub async fn routes(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<Vec<RouteRow>>, ApiError> {
    let pair = params.require_pair()?;
    let range = params.range()?;
    params.reject_rest()?;
    let file = shared.state.file();
    let rows = shared.archive.query(move |archive| build_route_rows(archive, &file, &pair, range));
    Ok(Json(rows.await?))
}

fn build_route_rows(
    archive: &Archive,
    file: &WatchFile,
    pair: &HostPair,
    range: TimeRange,
) -> Result<Vec<RouteRow>, StoreError> {
    let seen = path_traces::read_traces(archive, file, pair, range)?;
    let table = trace_table::build_trace_table(&pair.to, &seen, "");
    Ok(merge_equal_routes(&table.traces, &seen))
}

fn merge_equal_routes(traces: &[TraceEntry], seen: &[PathReport]) -> Vec<RouteRow> {
    let by_id: HashMap<&str, &PathReport> =
        seen.iter().map(|it| (it.run.id.as_str(), it)).collect();
    let mut rows: Vec<RouteRow> = Vec::new();
    for trace in traces {
        let Some(at_us) = parse_time_us(&trace.at) else {
            continue;
        };
        match rows.last_mut() {
            Some(row) if row.number == trace.number => {
                row.until_us = at_us;
                row.traces += 1;
            }
            _ => {
                let route = by_id.get(trace.run_id.as_str());
                let route = route.and_then(|path| path.observation.route.as_ref());
                let hops = route.map(|route| route.hops.iter().map(RouteHop::from).collect());
                rows.push(RouteRow {
                    at_us,
                    until_us: at_us,
                    traces: 1,
                    number: trace.number,
                    run_id: trace.run_id.clone(),
                    hops: hops.unwrap_or_default(),
                    change: trace.change.clone(),
                });
            }
        }
    }
    rows
}
