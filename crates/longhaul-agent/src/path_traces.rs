//! Traces of a pair over time: selects the runs to read, so that every lasting route is found.
//!
//! Each path run contains a route. For a long range some hundred runs are read, evenly spread; a
//! bisection between runs that differ then finds each change. A route that appears and disappears
//! between two of them is missed.

use crate::watch::watch_file::WatchFile;
use jiff::Timestamp;
use longhaul_analysis::path::compare_routes;
use longhaul_model::report::v1::path::{ObservedRoute, RouteChangeKind};
use longhaul_model::report::v1::{AnyReport, HostPair, PathReport, ReportKind};
use longhaul_store::history_store::{RunFilter, TimeRange};
use longhaul_store::{Archive, RunEntry, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of path runs that are listed for a pair.
const MAX_LISTED_RUNS: u32 = 100_000;
/// The maximum number of evenly spread runs.
const MAX_SPREAD_RUNS: usize = 400;
/// The maximum number of further runs that locate the changes.
const MAX_BISECTION_RUNS: usize = 300;

/// Returns traces of the pair in chronological order, each in the direction of the pair.
pub fn read_traces(
    archive: &Archive,
    file: &WatchFile,
    pair: &HostPair,
    range: TimeRange,
) -> Result<Vec<PathReport>, StoreError> {
    let mut entries = archive.runs(&RunFilter {
        range,
        pair: Some(pair.clone()),
        kind: Some(ReportKind::Path),
        ..RunFilter::newest(MAX_LISTED_RUNS)
    })?;
    entries.reverse();
    sample_traces(&entries, |entry| {
        let back = is_reverse_run(file, pair, entry);
        Ok(match archive.report(&entry.id)? {
            Some(AnyReport::Path(trace)) => orient_trace(*trace, back),
            _ => None,
        })
    })
}

/// Returns the addresses of the hops in the last trace of the pair before a time, and in the newest
/// one.
pub fn read_hop_addresses(
    archive: &Archive,
    file: &WatchFile,
    pair: &HostPair,
    before_us: i64,
) -> Result<BTreeSet<String>, StoreError> {
    let mut addresses = BTreeSet::new();
    for end_us in [before_us, i64::MAX] {
        let filter = RunFilter {
            range: TimeRange { begin_us: i64::MIN, end_us },
            pair: Some(pair.clone()),
            kind: Some(ReportKind::Path),
            ..RunFilter::newest(1)
        };
        for entry in archive.runs(&filter)? {
            let back = is_reverse_run(file, pair, &entry);
            let Some(AnyReport::Path(trace)) = archive.report(&entry.id)? else {
                continue;
            };
            let route = orient_trace(*trace, back).and_then(|trace| trace.observation.route);
            let Some(ObservedRoute { from, to, hops, .. }) = route else {
                continue;
            };
            let answers = hops.into_iter().flat_map(|hop| hop.answers).map(|it| it.address);
            addresses.extend(answers.filter(|address| *address != from && *address != to));
        }
    }
    Ok(addresses)
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
fn orient_trace(mut trace: PathReport, back: bool) -> Option<PathReport> {
    if back {
        let seen = &mut trace.observation;
        std::mem::swap(&mut seen.route, &mut seen.route_reverse);
        // The number belongs to the forward route.
        trace.analysis.route_number = None;
    }
    trace.observation.route_reverse = None;
    trace.observation.route.is_some().then_some(trace)
}

/// Returns traces of some of `entries`, both in chronological order.
fn sample_traces(
    entries: &[RunEntry],
    mut read: impl FnMut(&RunEntry) -> Result<Option<PathReport>, StoreError>,
) -> Result<Vec<PathReport>, StoreError> {
    let mut found = BTreeMap::new();
    for index in spread_indices(entries.len()) {
        if let Some(trace) = read(&entries[index])? {
            found.insert(index, trace);
        }
    }
    let mut ahead = find_gaps(&found);
    for _ in 0..MAX_BISECTION_RUNS {
        let Some((before, after)) = ahead.pop() else {
            break;
        };
        let middle = before.midpoint(after);
        let Some(trace) = read(&entries[middle])? else {
            continue;
        };
        let sides = [(before, middle), (middle, after)];
        found.insert(middle, trace);
        ahead.extend(sides.into_iter().filter(|side| hides_change(&found, *side)));
    }
    Ok(found.into_values().collect())
}

/// Returns at most [`MAX_SPREAD_RUNS`] of `count` indices, including the first and the last.
fn spread_indices(count: usize) -> Vec<usize> {
    if count <= MAX_SPREAD_RUNS {
        return (0..count).collect();
    }
    let last = count - 1;
    (0..MAX_SPREAD_RUNS).map(|it| it * last / (MAX_SPREAD_RUNS - 1)).collect()
}

/// Returns neighbours that differ and have runs between them; the latest last.
fn find_gaps(found: &BTreeMap<usize, PathReport>) -> Vec<(usize, usize)> {
    let indices: Vec<usize> = found.keys().copied().collect();
    let neighbours = indices.windows(2).map(|two| (two[0], two[1]));
    neighbours.filter(|two| hides_change(found, *two)).collect()
}

/// Returns whether two routes differ in more than a hop that does not answer.
pub fn is_other_route(route: &ObservedRoute, before: &ObservedRoute) -> bool {
    compare_routes(route, before).kind > RouteChangeKind::SilentHop
}

fn hides_change(found: &BTreeMap<usize, PathReport>, (before, after): (usize, usize)) -> bool {
    let route = |index| found.get(&index).and_then(|it| it.observation.route.as_ref());
    let Some((here, there)) = route(before).zip(route(after)) else {
        return false;
    };
    after - before > 1 && is_other_route(there, here)
}

/// Parses a time of a report into microseconds.
pub fn parse_time_us(text: &str) -> Option<i64> {
    let moment: Timestamp = text.parse().ok()?;
    Some(moment.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::{MAX_SPREAD_RUNS, spread_indices};

    #[test]
    fn few_are_all_read_and_many_are_spread_from_end_to_end() {
        assert_eq!(spread_indices(3), [0, 1, 2]);
        assert!(spread_indices(0).is_empty());
        let many = spread_indices(52_560);
        assert_eq!((many.len(), many[0], many[MAX_SPREAD_RUNS - 1]), (MAX_SPREAD_RUNS, 0, 52_559));
        assert!(many.windows(2).all(|two| two[0] < two[1]));
    }
}
