//! Finds paths that changed together with a path, and measured paths that did not change.

use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::path::ObservedRoute;
use longhaul_model::report::v1::{AnyReport, ChangeEvent, EventState, HostPair, ReportKind};
use longhaul_store::history_store::{EventFilter, RunFilter, TimeRange};
use longhaul_store::{Archive, StoreError};
use std::collections::HashSet;

/// The maximum number of other paths that are checked.
const PAIRS_MAX: usize = 64;
/// The maximum number of routes that are read for them.
const ROUTES_MAX: usize = 16;
const EVENTS_MAX: u32 = 200;
/// The time around the event in which changes of other paths count as simultaneous.
const SIMULTANEOUS_US: i64 = 6 * 3_600_000_000;
/// The maximum number of values that are read of an unchanged path.
const MAX_STEADY_POINTS: u32 = 64;
/// The time before the event in which an unchanged path must have values.
const STEADY_HISTORY_US: i64 = 14 * 86_400_000_000;

#[derive(Default)]
pub struct OtherPaths {
    pub changed: Vec<(ChangeEvent, Option<ObservedRoute>)>,
    pub unchanged: Vec<(HostPair, Option<ObservedRoute>)>,
}

/// `own` is the name of the agent.
pub fn find_other_paths(
    archive: &Archive,
    event: &ChangeEvent,
    own: &str,
) -> Result<OtherPaths, StoreError> {
    let mut others = OtherPaths::default();
    let mut routes = 0;
    let mut route = |pair: &HostPair| -> Result<Option<ObservedRoute>, StoreError> {
        routes += 1;
        if routes > ROUTES_MAX {
            return Ok(None);
        }
        read_latest_route(archive, pair, own)
    };
    for other in find_simultaneous_events(archive, event)? {
        let route = route(&other.pair)?;
        others.changed.push((other, route));
    }
    let known: HashSet<HostPair> = others.changed.iter().map(|(it, _)| it.pair.clone()).collect();
    let pairs = archive.pairs()?;
    let rest = pairs.into_iter().filter(|pair| {
        is_comparable(pair, &event.pair)
            && !is_same_path(pair, &event.pair)
            && !known.contains(pair)
    });
    for pair in rest.take(PAIRS_MAX) {
        if has_values_around(archive, event, &pair)? {
            let route = route(&pair)?;
            others.unchanged.push((pair, route));
        }
    }
    Ok(others)
}

/// Returns true for two paths, and for two transfers: a path says nothing about the programs of a
/// transfer, and the other way round.
pub fn is_comparable(one: &HostPair, other: &HostPair) -> bool {
    let is_transfer = |pair| TransferIdentity::of_pair(pair).is_some();
    is_transfer(one) == is_transfer(other)
}

fn is_same_path(one: &HostPair, other: &HostPair) -> bool {
    one == other || one.from == other.to && one.to == other.from
}

fn find_simultaneous_events(
    archive: &Archive,
    event: &ChangeEvent,
) -> Result<Vec<ChangeEvent>, StoreError> {
    let [begin, end] = event.between_us;
    let mut events = archive.events(&EventFilter {
        range: TimeRange {
            begin_us: begin.saturating_sub(SIMULTANEOUS_US),
            end_us: end.saturating_add(SIMULTANEOUS_US),
        },
        ..EventFilter::newest(EVENTS_MAX)
    })?;
    events.retain(|other| {
        other.quantity == event.quantity
            && other.state != EventState::Withdrawn
            && other.shared.is_none()
            && is_comparable(&other.pair, &event.pair)
            && !is_same_path(&other.pair, &event.pair)
    });
    events.truncate(PAIRS_MAX);
    Ok(events)
}

/// Returns whether the pair was measured before and after the event.
pub fn has_values_around(
    archive: &Archive,
    event: &ChangeEvent,
    pair: &HostPair,
) -> Result<bool, StoreError> {
    let [begin, end] = event.between_us;
    let range = TimeRange { begin_us: begin.saturating_sub(STEADY_HISTORY_US), end_us: i64::MAX };
    let series = archive.series(pair, event.quantity, range, MAX_STEADY_POINTS)?;
    let times = series.points.iter().map(|it| it.at_us);
    let mut times = times.chain(series.buckets.iter().map(|it| it.at_us));
    let (before, after) = times.by_ref().fold((0, 0), |(before, after), at| {
        (before + u32::from(at <= begin), after + u32::from(at >= end))
    });
    Ok(before > 1 && after > 1)
}

fn read_latest_route(
    archive: &Archive,
    pair: &HostPair,
    own: &str,
) -> Result<Option<ObservedRoute>, StoreError> {
    let runs = archive.runs(&RunFilter {
        pair: Some(pair.clone()),
        kind: Some(ReportKind::Path),
        ..RunFilter::newest(1)
    })?;
    let Some(run) = runs.first() else {
        return Ok(None);
    };
    let Some(AnyReport::Path(report)) = archive.report(&run.id)? else {
        return Ok(None);
    };
    let seen = report.observation;
    Ok(if pair.to == own { seen.route_reverse } else { seen.route })
}
