//! Compares the routes of a path in two periods.
//!
//! Uses the route that most traces of a period show, from the last trace in which most hops
//! answered. A hop that is silent in only one of two traces does not make them different.

use super::archived_path::{ArchivedPath, ArchivedRun};
use crate::event::EvidenceReport;
use longhaul_analysis::path::compare_routes;
use longhaul_analysis::path::trace_table::count_answering_hops;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::case::{RouteCase, TracedRoute};
use longhaul_model::report::v1::comparison::TimePeriod;
use longhaul_model::report::v1::path::{ObservedRoute, RouteChangeKind};
use longhaul_model::report::v1::series::HostPair;

/// Compares the routes of both directions, forward first; omits those without a trace.
pub fn compare_period_routes(material: &ArchivedPath, periods: [TimePeriod; 2]) -> Vec<RouteCase> {
    let of = |pair: HostPair| {
        let [before, after] = periods.map(|period| find_usual_route(material, &pair, period));
        let both = before.as_ref().zip(after.as_ref());
        let change = both.map(|(before, after)| compare_routes(&after.route, &before.route));
        RouteCase { pair, before, after, change }
    };
    let mut cases: Vec<RouteCase> = material.directions().map(of).into();
    cases.retain(|case| case.before.is_some() || case.after.is_some());
    cases
}

fn find_usual_route(
    material: &ArchivedPath,
    pair: &HostPair,
    period: TimePeriod,
) -> Option<TracedRoute> {
    let runs = material.runs_within(period);
    let traced: Vec<_> = runs.filter_map(|run| Some((run, route_of_run(run, pair)?))).collect();
    let mut kinds: Vec<Vec<(&ArchivedRun, &ObservedRoute)>> = Vec::new();
    for (run, route) in traced.iter().copied() {
        match kinds.iter_mut().find(|kind| is_same_route(route, kind[0].1)) {
            Some(kind) => kind.push((run, route)),
            None => kinds.push(vec![(run, route)]),
        }
    }
    let most = kinds.into_iter().max_by_key(Vec::len)?;
    let (run, route) =
        most.iter().max_by_key(|(run, route)| (count_answering_hops(route), run.at_us))?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(TracedRoute {
        run_id: run.run_id.clone(),
        at_us: run.at_us,
        run_counts: [count(most.len()), count(traced.len())],
        route: (*route).clone(),
    })
}

/// Returns the route that a path report traced in this direction.
fn route_of_run<'a>(run: &'a ArchivedRun, pair: &HostPair) -> Option<&'a ObservedRoute> {
    let AnyReport::Path(report) = &run.report else {
        return None;
    };
    EvidenceReport { at_us: run.at_us, report: &**report, forward: run.near == pair.from }.route()
}

fn is_same_route(here: &ObservedRoute, other: &ObservedRoute) -> bool {
    here.reached == other.reached && compare_routes(here, other).kind <= RouteChangeKind::SilentHop
}
