//! Finds paths that changed together with a path, and measured paths that did not change.

use longhaul_analysis::event::{Elsewhere, Steady};
use longhaul_model::report::v1::event::{Event, State};
use longhaul_model::report::v1::path::Route;
use longhaul_model::report::v1::series::Pair;
use longhaul_model::report::v1::{AnyReport, Kind};
use longhaul_store::watched::{EventFilter, Range, RunFilter};
use longhaul_store::{StoreError, Watched};
use std::collections::HashSet;

/// The maximum number of other paths that are checked.
const PAIRS_MAX: usize = 64;
/// The maximum number of routes that are read for them.
const ROUTES_MAX: usize = 16;
const EVENTS_MAX: u32 = 200;
/// The time around the event in which changes of other paths count as simultaneous.
const NEAR_US: i64 = 6 * 3_600_000_000;
/// The maximum number of values that are read of an unchanged path.
const POINTS: u32 = 64;
/// The time before the event in which an unchanged path must have values.
const LONG_US: i64 = 14 * 86_400_000_000;

#[derive(Default)]
pub struct Others {
    pub changed: Vec<(Event, Option<Route>)>,
    pub stayed: Vec<(Pair, Option<Route>)>,
}

impl Others {
    pub fn elsewhere(&self) -> Vec<Elsewhere<'_>> {
        self.changed
            .iter()
            .map(|(event, route)| Elsewhere {
                event,
                route: route.as_ref(),
            })
            .collect()
    }

    pub fn steady(&self) -> Vec<Steady<'_>> {
        self.stayed
            .iter()
            .map(|(pair, route)| Steady {
                pair,
                route: route.as_ref(),
            })
            .collect()
    }
}

/// `own` is the name of the agent.
pub fn of(archive: &dyn Watched, event: &Event, own: &str) -> Result<Others, StoreError> {
    let mut others = Others::default();
    let mut routes = 0;
    let mut route = |pair: &Pair| -> Result<Option<Route>, StoreError> {
        routes += 1;
        if routes > ROUTES_MAX {
            return Ok(None);
        }
        latest_route(archive, pair, own)
    };
    for other in changed(archive, event)? {
        let route = route(&other.pair)?;
        others.changed.push((other, route));
    }
    let known: HashSet<Pair> = others
        .changed
        .iter()
        .map(|(it, _)| it.pair.clone())
        .collect();
    let pairs = archive.pairs()?;
    let rest = pairs
        .into_iter()
        .filter(|pair| !is_same_path(pair, &event.pair) && !known.contains(pair));
    for pair in rest.take(PAIRS_MAX) {
        if stayed(archive, event, &pair)? {
            let route = route(&pair)?;
            others.stayed.push((pair, route));
        }
    }
    Ok(others)
}

fn is_same_path(one: &Pair, other: &Pair) -> bool {
    one == other || one.from == other.to && one.to == other.from
}

fn changed(archive: &dyn Watched, event: &Event) -> Result<Vec<Event>, StoreError> {
    let [begin, end] = event.between_us;
    let mut events = archive.events(&EventFilter {
        range: Range {
            begin_us: begin.saturating_sub(NEAR_US),
            end_us: end.saturating_add(NEAR_US),
        },
        pair: None,
        state: None,
        limit: EVENTS_MAX,
    })?;
    events.retain(|other| {
        other.quantity == event.quantity
            && other.state != State::Withdrawn
            && !is_same_path(&other.pair, &event.pair)
    });
    events.truncate(PAIRS_MAX);
    Ok(events)
}

/// Returns whether the pair was measured before and after the event.
fn stayed(archive: &dyn Watched, event: &Event, pair: &Pair) -> Result<bool, StoreError> {
    let [begin, end] = event.between_us;
    let range = Range {
        begin_us: begin.saturating_sub(LONG_US),
        end_us: i64::MAX,
    };
    let series = archive.series(pair, event.quantity, range, POINTS)?;
    let times = series.points.iter().map(|it| it.at_us);
    let mut times = times.chain(series.buckets.iter().map(|it| it.at_us));
    let (before, after) = times.by_ref().fold((0, 0), |(before, after), at| {
        (
            before + u32::from(at <= begin),
            after + u32::from(at >= end),
        )
    });
    Ok(before > 1 && after > 1)
}

fn latest_route(
    archive: &dyn Watched,
    pair: &Pair,
    own: &str,
) -> Result<Option<Route>, StoreError> {
    let runs = archive.runs(&RunFilter {
        range: Range::ALL,
        pair: Some(pair.clone()),
        kind: Some(Kind::Path),
        limit: 1,
    })?;
    let Some(run) = runs.first() else {
        return Ok(None);
    };
    let Some(AnyReport::Path(report)) = archive.report(&run.id)? else {
        return Ok(None);
    };
    let seen = report.observation;
    Ok(if pair.to == own {
        seen.route_reverse
    } else {
        seen.route
    })
}
