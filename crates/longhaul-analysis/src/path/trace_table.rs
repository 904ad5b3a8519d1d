//! A table of many traces of one path: a row per day, a cell per hour, and the list of routes.
//!
//! Every trace is compared with the one before it (a complete one with the last complete one). An
//! hour shows the largest change of its traces, as SLAC's tables did with six of them.
//!
//! Source: the layout of SLAC's daily traceroute tables, in our words. Units: hours in UTC, TTL,
//! ns. Error: none; changes between two traces appear at the later one.
//! Wrong when: a table mixes traces by different protocols or flows: their routes may differ
//! although nothing changed.

use super::known_routes::{KnownRoute, assign_route_number};
use super::path_conclusion::compare_with_previous;
use super::route_difference;
use longhaul_model::report::v1::PathReport;
use longhaul_model::report::v1::path::{ObservedRoute, RouteChangeKind, RouteDifference};
use serde::Serialize;
use std::collections::BTreeMap;

/// Hours of a day.
pub const HOURS: usize = 24;

/// All traces of one path in a period. As JSON, its names are those of report v1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceTable {
    pub host: String,
    /// Days with a trace, ascending.
    #[serde(skip)]
    pub days: Vec<TraceDay>,
    /// Routes seen in the period, by number.
    pub routes: Vec<DistinctRoute>,
    /// In order of time.
    pub traces: Vec<TraceEntry>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TraceDay {
    /// `2003-06-11`.
    pub date: String,
    /// `None` if the hour has no trace.
    pub hours: [Option<TraceCell>; HOURS],
}

/// One hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceCell {
    /// The largest change of its traces; `None` for the first trace of the path.
    pub kind: Option<RouteChangeKind>,
    /// The number of the route that the largest change led to.
    pub number: u32,
    pub traces: u32,
}

/// One trace, compared with the previous one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceEntry {
    pub run_id: String,
    /// UTC, RFC 3339.
    pub at: String,
    #[serde(rename = "route_number")]
    pub number: u32,
    /// `None` for the first trace of its path.
    #[serde(rename = "route_change")]
    pub change: Option<RouteDifference>,
    pub hops: usize,
    pub reached: bool,
    pub rtt_min_ns: Option<u64>,
}

/// One distinct route of the path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DistinctRoute {
    #[serde(rename = "route_number")]
    pub number: u32,
    /// In the whole archive.
    pub first_seen: String,
    pub last_seen: String,
    pub traces: u32,
    pub rtt_min_ns: Option<u64>,
    /// Its trace in which the most hops answered.
    pub route: ObservedRoute,
}

/// Builds the table from the reports of one path, in any order. Traces before `since` (UTC, RFC
/// 3339) only determine the numbers of the routes.
pub fn build_trace_table(host: &str, reports: &[PathReport], since: &str) -> TraceTable {
    let mut history = TraceHistory::default();
    let mut traces: Vec<TraceEntry> =
        sort_by_time(reports).into_iter().filter_map(|report| history.step(report)).collect();
    traces.retain(|trace| trace.at.as_str() >= since);
    let shown = |route: &DistinctRoute| traces.iter().any(|trace| trace.number == route.number);
    TraceTable {
        host: host.to_owned(),
        days: group_by_day(&traces),
        routes: history.routes.into_values().filter(shown).collect(),
        traces,
    }
}

fn sort_by_time(reports: &[PathReport]) -> Vec<&PathReport> {
    let mut ordered: Vec<&PathReport> = reports.iter().collect();
    ordered.sort_by_key(|report| (&report.run.started_at, &report.run.id));
    ordered
}

/// The state after the traces so far.
#[derive(Default)]
struct TraceHistory {
    /// One entry per number and list of addresses: enough to find a number again.
    known: Vec<KnownRoute>,
    /// The last trace, and the last one that reached its end.
    last: Vec<KnownRoute>,
    routes: BTreeMap<u32, DistinctRoute>,
}

impl TraceHistory {
    fn step(&mut self, report: &PathReport) -> Option<TraceEntry> {
        let mut here = KnownRoute::without_number(report)?;
        let given = report.analysis.route_number;
        here.number = given.unwrap_or_else(|| assign_route_number(&self.known, &here.route));
        let measured = report.analysis.rtt.map(|rtt| rtt.min_ns);
        let trace = TraceEntry {
            run_id: here.run_id.clone(),
            at: here.at.clone(),
            number: here.number,
            change: compare_with_previous(&self.last, &here.route, measured),
            hops: here.route.hops.len(),
            reached: here.route.reached,
            rtt_min_ns: here.rtt_min_ns,
        };
        self.count(&here);
        self.remember(here);
        Some(trace)
    }

    fn count(&mut self, here: &KnownRoute) {
        let entry = self.routes.entry(here.number);
        let known = entry.or_insert_with(|| DistinctRoute {
            number: here.number,
            first_seen: here.at.clone(),
            last_seen: here.at.clone(),
            traces: 0,
            rtt_min_ns: None,
            route: here.route.clone(),
        });
        known.traces += 1;
        known.last_seen.clone_from(&here.at);
        known.rtt_min_ns = [known.rtt_min_ns, here.rtt_min_ns].into_iter().flatten().min();
        if count_answering_hops(&here.route) > count_answering_hops(&known.route) {
            known.route = here.route.clone();
        }
    }

    fn remember(&mut self, here: KnownRoute) {
        let alike = |known: &KnownRoute| {
            known.number == here.number
                && known.route.reached == here.route.reached
                && route_difference::compare_hops(&known.route, &here.route).kind
                    == RouteChangeKind::Same
        };
        if !self.known.iter().any(alike) {
            self.known.push(here.clone());
        }
        self.last.retain(|last| last.route.reached && !here.route.reached);
        self.last.push(here);
    }
}

pub fn count_answering_hops(route: &ObservedRoute) -> usize {
    route.hops.iter().filter(|hop| !hop.answers.is_empty()).count()
}

fn group_by_day(traces: &[TraceEntry]) -> Vec<TraceDay> {
    let mut days: BTreeMap<&str, [Option<TraceCell>; HOURS]> = BTreeMap::new();
    for trace in traces {
        let Some((date, hour)) = parse_date_hour(&trace.at) else {
            continue;
        };
        let hours = days.entry(date).or_default();
        hours[hour] = Some(merge_into_cell(hours[hour], trace));
    }
    let day = |(date, hours): (&str, [Option<TraceCell>; HOURS])| TraceDay {
        date: date.to_owned(),
        hours,
    };
    days.into_iter().map(day).collect()
}

/// Returns date and hour of `2003-06-11T22:45:00Z`.
fn parse_date_hour(at: &str) -> Option<(&str, usize)> {
    let (date, time) = at.split_once('T')?;
    let hour: usize = time.split(':').next()?.parse().ok()?;
    (hour < HOURS).then_some((date, hour))
}

/// Returns the larger change of the two; the later one if they are equal.
fn merge_into_cell(cell: Option<TraceCell>, trace: &TraceEntry) -> TraceCell {
    let kind = trace.change.as_ref().map(|change| change.kind);
    let traces = cell.map_or(0, |cell| cell.traces) + 1;
    match cell {
        // The first trace of a path is shown unless the route changes later in that hour.
        Some(worse) if rank_change(worse.kind) > rank_change(kind) => TraceCell { traces, ..worse },
        _ => TraceCell { kind, number: trace.number, traces },
    }
}

/// Ranks the first trace of a path above an unchanged one and below any change.
fn rank_change(kind: Option<RouteChangeKind>) -> (RouteChangeKind, bool) {
    match kind {
        None => (RouteChangeKind::SilentHop, true),
        Some(kind) => (kind, false),
    }
}

#[cfg(test)]
mod tests;
