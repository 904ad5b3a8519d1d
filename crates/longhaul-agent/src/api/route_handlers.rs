//! The routes of a pair over time, with the same numbers as `longhaul report routes`.
//!
//! Each path run contains a route. For a long range some hundred runs are read, evenly spread; a
//! bisection between runs that differ then finds each change. A route that appears and disappears
//! between two of them is missed. Reports never change, so what was read is cached.

mod route_search;

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{QueryParams, QueryRange};
use super::shape::series_rows::{RouteHop, RouteRow};
use crate::watch::watch_file::WatchFile;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use longhaul_analysis::path::trace_table::{self, TraceEntry};
use longhaul_model::report::v1::path::{PathAnalysis, PathObservation};
use longhaul_model::report::v1::series::HostPair;
use longhaul_model::report::v1::{AnyReport, PathReport, ReportKind};
use longhaul_store::history_store::{RunFilter, TimeRange};
use longhaul_store::{Archive, RunEntry, StoreError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of path runs that are listed for a pair.
const MAX_LISTED_RUNS: u32 = 100_000;
/// The maximum number of cached traces, some kilobytes each.
const MAX_CACHED_TRACES: usize = 2000;

/// Traces by run id; `None` for runs without one.
#[derive(Clone, Default)]
pub struct TraceCache {
    traces: Arc<Mutex<HashMap<String, Option<Arc<PathReport>>>>>,
}

impl TraceCache {
    fn read_trace(
        &self,
        archive: &Archive,
        id: &str,
    ) -> Result<Option<Arc<PathReport>>, StoreError> {
        let kept = || self.traces.lock();
        if let Some(known) = kept().get(id) {
            return Ok(known.clone());
        }
        let trace = match archive.report(id)? {
            Some(AnyReport::Path(report)) => Some(Arc::new(keep_routes_only(*report))),
            _ => None,
        };
        let mut kept = kept();
        if kept.len() >= MAX_CACHED_TRACES {
            kept.clear();
        }
        kept.insert(id.to_owned(), trace.clone());
        Ok(trace)
    }
}

/// Removes everything that the comparison of routes does not need.
fn keep_routes_only(report: PathReport) -> PathReport {
    let (seen, judged) = (report.observation, report.analysis);
    PathReport {
        observation: PathObservation {
            address: seen.address,
            route: seen.route,
            route_reverse: seen.route_reverse,
            ..PathObservation::default()
        },
        analysis: PathAnalysis {
            version: judged.version,
            rtt: judged.rtt,
            route_number: judged.route_number,
            ..PathAnalysis::default()
        },
        findings: Vec::new(),
        caveats: Vec::new(),
        ..report
    }
}

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
    let (file, memory) = (shared.state.file(), shared.traces.clone());
    let rows = shared
        .archive
        .query(move |archive| build_route_rows(archive, &file, &memory, &pair, range));
    Ok(Json(rows.await?))
}

fn build_route_rows(
    archive: &Archive,
    file: &WatchFile,
    memory: &TraceCache,
    pair: &HostPair,
    range: TimeRange,
) -> Result<Vec<RouteRow>, StoreError> {
    let mut entries = archive.runs(&RunFilter {
        range,
        pair: Some(pair.clone()),
        kind: Some(ReportKind::Path),
        limit: MAX_LISTED_RUNS,
    })?;
    entries.reverse();
    let seen = route_search::sample_traces(&entries, |entry| {
        let trace = memory.read_trace(archive, &entry.id)?;
        let back = is_reverse_run(file, pair, entry);
        Ok(trace.and_then(|trace| orient_trace(&trace, back)))
    })?;
    let table = trace_table::build_trace_table(&pair.to, &seen, "");
    Ok(merge_equal_routes(&table.traces, &seen))
}

/// Returns whether the receiver of the pair started the run.
fn is_reverse_run(file: &WatchFile, pair: &HostPair, entry: &RunEntry) -> bool {
    let own = &file.own_host().name;
    if *own == pair.from || *own == pair.to {
        return *own == pair.to;
    }
    let is = |name: &str, said: &str| {
        let host = file.hosts.iter().find(|host| host.name == name);
        said == name || host.is_some_and(|host| host.address == said)
    };
    is(&pair.to, &entry.initiator_host) || is(&pair.from, &entry.responder_host)
}

/// Returns the trace in the direction of the pair, or `None` if that direction was not traced.
fn orient_trace(trace: &PathReport, back: bool) -> Option<PathReport> {
    let mut trace = trace.clone();
    if back {
        let seen = &mut trace.observation;
        std::mem::swap(&mut seen.route, &mut seen.route_reverse);
        // The number belongs to the forward route.
        trace.analysis.route_number = None;
    }
    trace.observation.route_reverse = None;
    trace.observation.route.is_some().then_some(trace)
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

/// Parses a time of a report into microseconds.
pub fn parse_time_us(text: &str) -> Option<i64> {
    let moment: Timestamp = text.parse().ok()?;
    Some(moment.as_microsecond())
}
