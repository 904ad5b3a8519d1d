//! The routes of a pair over time, with the same numbers as `longhaul report routes`.
//!
//! Each path run contains a route. For a long range some hundred runs are read, evenly spread; a
//! bisection between runs that differ then finds each change. A route that appears and disappears
//! between two of them is missed. Reports never change, so what was read is cached.

mod search;

use super::Shared;
use super::asked::{Asked, Span};
use super::fault::Fault;
use super::shape::mesh::{RouteChange, RouteHop, RouteRow};
use crate::watch::file::WatchFile;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use longhaul_analysis::path::table::{self, Trace};
use longhaul_model::report::v1::path::{Analysis, Observation};
use longhaul_model::report::v1::series::Pair;
use longhaul_model::report::v1::{AnyReport, Kind, Path};
use longhaul_store::watched::{Range, RunFilter};
use longhaul_store::{Entry, StoreError, Watched};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of path runs that are listed for a pair.
const LISTED: u32 = 100_000;
/// The maximum number of cached traces, some kilobytes each.
const KEPT: usize = 2000;

/// Traces by run id; `None` for runs without one.
#[derive(Clone, Default)]
pub struct Memory {
    kept: Arc<Mutex<HashMap<String, Option<Arc<Path>>>>>,
}

impl Memory {
    fn trace(&self, archive: &dyn Watched, id: &str) -> Result<Option<Arc<Path>>, StoreError> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().get(id) {
            return Ok(known.clone());
        }
        let trace = match archive.report(id)? {
            Some(AnyReport::Path(report)) => Some(Arc::new(bare(*report))),
            _ => None,
        };
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(id.to_owned(), trace.clone());
        Ok(trace)
    }
}

/// Removes everything that the comparison of routes does not need.
fn bare(report: Path) -> Path {
    let (seen, judged) = (report.observation, report.analysis);
    Path {
        observation: Observation {
            address: seen.address,
            route: seen.route,
            route_reverse: seen.route_reverse,
            ..Observation::default()
        },
        analysis: Analysis {
            version: judged.version,
            rtt: judged.rtt,
            route_number: judged.route_number,
            ..Analysis::default()
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
        Span,
    ),
    responses((status = 200, description = "Stretches of time, each with its route", body = Vec<RouteRow>)))]
pub async fn routes(
    State(shared): State<Arc<Shared>>,
    mut asked: Asked,
) -> Result<Json<Vec<RouteRow>>, Fault> {
    let pair = asked.must_pair()?;
    let range = asked.range()?;
    asked.done()?;
    let (file, memory) = (shared.desk.file(), shared.traces.clone());
    let rows = shared
        .readers
        .ask(move |archive| rows(archive, (&file, &memory), &pair, range));
    Ok(Json(rows.await?))
}

fn rows(
    archive: &dyn Watched,
    (file, memory): (&WatchFile, &Memory),
    pair: &Pair,
    range: Range,
) -> Result<Vec<RouteRow>, StoreError> {
    let mut entries = archive.runs(&RunFilter {
        range,
        pair: Some(pair.clone()),
        kind: Some(Kind::Path),
        limit: LISTED,
    })?;
    entries.reverse();
    let seen = search::traces(&entries, |entry| {
        let trace = memory.trace(archive, &entry.id)?;
        let back = is_back(file, pair, entry);
        Ok(trace.and_then(|trace| in_direction(&trace, back)))
    })?;
    let table = table::of(&pair.to, &seen, "");
    Ok(stretches(&table.traces, &seen))
}

/// Returns whether the receiver of the pair started the run.
fn is_back(file: &WatchFile, pair: &Pair, entry: &Entry) -> bool {
    let own = &file.own().name;
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
fn in_direction(trace: &Path, back: bool) -> Option<Path> {
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

fn stretches(traces: &[Trace], seen: &[Path]) -> Vec<RouteRow> {
    let by_id: HashMap<&str, &Path> = seen.iter().map(|it| (it.run.id.as_str(), it)).collect();
    let mut rows: Vec<RouteRow> = Vec::new();
    for trace in traces {
        let Some(at_us) = moment_us(&trace.at) else {
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
                    change: RouteChange::of(trace),
                });
            }
        }
    }
    rows
}

/// Parses a time of a report into microseconds.
pub fn moment_us(text: &str) -> Option<i64> {
    let moment: Timestamp = text.parse().ok()?;
    Some(moment.as_microsecond())
}
