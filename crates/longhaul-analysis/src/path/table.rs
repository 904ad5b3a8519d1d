//! A table of many traces of one path: a row per day, a cell per hour, and the list of routes.
//!
//! Every trace is compared with the one before it (a complete one with the last complete one). An
//! hour shows the largest change of its traces, as SLAC's tables did with six of them.
//!
//! Source: the layout of SLAC's daily traceroute tables, in our words. Units: hours in UTC, TTL,
//! ns. Error: none; changes between two traces appear at the later one.
//! Wrong when: a table mixes traces by different protocols or flows: their routes may differ
//! although nothing changed.

use super::compare;
use super::conclude::change;
use super::known::{KnownRoute, number};
use longhaul_model::report::v1::Path;
use longhaul_model::report::v1::path::{ChangeKind, Route, RouteChange};
use std::collections::BTreeMap;

/// Hours of a day.
pub const HOURS: usize = 24;

/// All traces of one path in a period.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub host: String,
    /// Days with a trace, ascending.
    pub days: Vec<Day>,
    /// Routes seen in the period, by number.
    pub routes: Vec<Distinct>,
    /// In order of time.
    pub traces: Vec<Trace>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Day {
    /// `2003-06-11`.
    pub date: String,
    /// `None` if the hour has no trace.
    pub hours: [Option<Cell>; HOURS],
}

/// One hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The largest change of its traces; `None` for the first trace of the path.
    pub kind: Option<ChangeKind>,
    /// The number of the route that the largest change led to.
    pub number: u32,
    pub traces: u32,
}

/// One trace, compared with the previous one.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    pub run_id: String,
    /// UTC, RFC 3339.
    pub at: String,
    pub number: u32,
    /// `None` for the first trace of its path.
    pub change: Option<RouteChange>,
    pub hops: usize,
    pub reached: bool,
    pub rtt_min_ns: Option<u64>,
}

/// One distinct route of the path.
#[derive(Debug, Clone, PartialEq)]
pub struct Distinct {
    pub number: u32,
    /// In the whole archive.
    pub first_seen: String,
    pub last_seen: String,
    pub traces: u32,
    pub rtt_min_ns: Option<u64>,
    /// Its trace in which the most hops answered.
    pub route: Route,
}

/// Builds the table from the reports of one path, in any order. Traces before `since` (UTC, RFC
/// 3339) only determine the numbers of the routes.
pub fn of(host: &str, reports: &[Path], since: &str) -> Table {
    let mut course = Course::default();
    let mut traces: Vec<Trace> = in_time(reports)
        .into_iter()
        .filter_map(|report| course.step(report))
        .collect();
    traces.retain(|trace| trace.at.as_str() >= since);
    let shown = |route: &Distinct| traces.iter().any(|trace| trace.number == route.number);
    Table {
        host: host.to_owned(),
        days: days(&traces),
        routes: course.routes.into_values().filter(shown).collect(),
        traces,
    }
}

fn in_time(reports: &[Path]) -> Vec<&Path> {
    let mut ordered: Vec<&Path> = reports.iter().collect();
    ordered.sort_by_key(|report| (&report.run.started_at, &report.run.id));
    ordered
}

/// The state after the traces so far.
#[derive(Default)]
struct Course {
    /// One entry per number and list of addresses: enough to find a number again.
    known: Vec<KnownRoute>,
    /// The last trace, and the last one that reached its end.
    last: Vec<KnownRoute>,
    routes: BTreeMap<u32, Distinct>,
}

impl Course {
    fn step(&mut self, report: &Path) -> Option<Trace> {
        let mut here = KnownRoute::numbered(report, 0)?;
        let given = report.analysis.route_number;
        here.number = given.unwrap_or_else(|| number(&self.known, &here.route));
        let measured = report.analysis.rtt.map(|rtt| rtt.min_ns);
        let trace = Trace {
            run_id: here.run_id.clone(),
            at: here.at.clone(),
            number: here.number,
            change: change(&self.last, &here.route, measured),
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
        let known = entry.or_insert_with(|| Distinct {
            number: here.number,
            first_seen: here.at.clone(),
            last_seen: here.at.clone(),
            traces: 0,
            rtt_min_ns: None,
            route: here.route.clone(),
        });
        known.traces += 1;
        known.last_seen.clone_from(&here.at);
        known.rtt_min_ns = [known.rtt_min_ns, here.rtt_min_ns]
            .into_iter()
            .flatten()
            .min();
        if answering(&here.route) > answering(&known.route) {
            known.route = here.route.clone();
        }
    }

    fn remember(&mut self, here: KnownRoute) {
        let alike = |known: &KnownRoute| {
            known.number == here.number
                && known.route.reached == here.route.reached
                && compare::difference(&known.route, &here.route).kind == ChangeKind::Same
        };
        if !self.known.iter().any(alike) {
            self.known.push(here.clone());
        }
        self.last
            .retain(|last| last.route.reached && !here.route.reached);
        self.last.push(here);
    }
}

fn answering(route: &Route) -> usize {
    let heard = route.hops.iter().filter(|hop| !hop.answers.is_empty());
    heard.count()
}

fn days(traces: &[Trace]) -> Vec<Day> {
    let mut days: BTreeMap<&str, [Option<Cell>; HOURS]> = BTreeMap::new();
    for trace in traces {
        let Some((date, hour)) = when(&trace.at) else {
            continue;
        };
        let hours = days.entry(date).or_default();
        hours[hour] = Some(joined(hours[hour], trace));
    }
    let day = |(date, hours): (&str, [Option<Cell>; HOURS])| Day {
        date: date.to_owned(),
        hours,
    };
    days.into_iter().map(day).collect()
}

/// Returns date and hour of `2003-06-11T22:45:00Z`.
fn when(at: &str) -> Option<(&str, usize)> {
    let (date, time) = at.split_once('T')?;
    let hour: usize = time.split(':').next()?.parse().ok()?;
    (hour < HOURS).then_some((date, hour))
}

/// Returns the larger change of the two; the later one if they are equal.
fn joined(cell: Option<Cell>, trace: &Trace) -> Cell {
    let kind = trace.change.as_ref().map(|change| change.kind);
    let traces = cell.map_or(0, |cell| cell.traces) + 1;
    match cell {
        // The first trace of a path is shown unless the route changes later in that hour.
        Some(worse) if rank(worse.kind) > rank(kind) => Cell { traces, ..worse },
        _ => Cell {
            kind,
            number: trace.number,
            traces,
        },
    }
}

/// Ranks the first trace of a path above an unchanged one and below any change.
fn rank(kind: Option<ChangeKind>) -> (ChangeKind, bool) {
    match kind {
        None => (ChangeKind::SilentHop, true),
        Some(kind) => (kind, false),
    }
}

#[cfg(test)]
mod tests;
