//! Compares the routes of a path in two periods.
//!
//! Uses the route that most traces of a period show, from the last trace in which most hops
//! answered. A hop that is silent in only one of two traces does not make them different.

use super::material::{Material, Taken};
use crate::path::compare;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::case::{RouteCase, TracedRoute};
use longhaul_model::report::v1::comparison::Period;
use longhaul_model::report::v1::path::{ChangeKind, Route};
use longhaul_model::report::v1::series::Pair;

/// Compares the routes of both directions, forward first; omits those without a trace.
pub fn of(material: &Material, before: Period, after: Period) -> Vec<RouteCase> {
    let directions = material.directions();
    let of = |pair: &Pair| {
        let [before, after] = [before, after].map(|period| usual(material, pair, period));
        if before.is_none() && after.is_none() {
            return None;
        }
        let change = before
            .as_ref()
            .zip(after.as_ref())
            .map(|(before, after)| compare(&after.route, &before.route));
        Some(RouteCase {
            pair: pair.clone(),
            before,
            after,
            change,
        })
    };
    directions.iter().filter_map(of).collect()
}

fn usual(material: &Material, pair: &Pair, period: Period) -> Option<TracedRoute> {
    let traced: Vec<(&Taken, &Route)> = material
        .within(period)
        .filter_map(|run| Some((run, trace(run, pair)?)))
        .collect();
    let mut kinds: Vec<Vec<(&Taken, &Route)>> = Vec::new();
    for (run, route) in traced.iter().copied() {
        let same = |kind: &&mut Vec<(&Taken, &Route)>| {
            kind.first().is_some_and(|(_, other)| alike(route, other))
        };
        match kinds.iter_mut().find(same) {
            Some(kind) => kind.push((run, route)),
            None => kinds.push(vec![(run, route)]),
        }
    }
    let most = kinds.into_iter().max_by_key(Vec::len)?;
    let (run, route) = most
        .iter()
        .max_by_key(|(run, route)| (answering(route), run.at_us))?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(TracedRoute {
        run_id: run.run_id.clone(),
        at_us: run.at_us,
        run_counts: [count(most.len()), count(traced.len())],
        route: (*route).clone(),
    })
}

/// Returns the route that a path report traced in this direction.
fn trace<'a>(run: &'a Taken, pair: &Pair) -> Option<&'a Route> {
    let AnyReport::Path(report) = &run.report else {
        return None;
    };
    let seen = &report.observation;
    if run.near == pair.from {
        seen.route.as_ref()
    } else {
        seen.route_reverse.as_ref()
    }
}

fn alike(here: &Route, other: &Route) -> bool {
    here.reached == other.reached && compare(here, other).kind <= ChangeKind::SilentHop
}

fn answering(route: &Route) -> usize {
    let heard = route.hops.iter().filter(|hop| !hop.answers.is_empty());
    heard.count()
}
