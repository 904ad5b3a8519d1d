//! Draws all conclusions from one path run.

use super::route_difference::compare_routes;
use super::{
    KnownRoute, PathCapacityEstimate, hop_delays, known_routes, narrow_link, path_caveats,
    path_findings, route_difference,
};
use crate::RunConclusion;
use longhaul_model::report::v1::path::{
    ObservedRoute, PathAnalysis, PathObservation, PathPlan, RouteDifference,
};

/// Judges the observation; `known_routes` are earlier routes of this path in any order, `capacity` is that
/// of the whole path in the direction of the load, if an estimate exists.
pub fn conclude_path(
    plan: &PathPlan,
    observation: &PathObservation,
    known: &[KnownRoute],
    capacity: Option<PathCapacityEstimate>,
) -> RunConclusion<PathAnalysis> {
    let seen = observation;
    let rtt = seen.round_trips.as_ref().and_then(hop_delays::summarize_rtt);
    let route = seen.route.as_ref();
    let floor = rtt.map(|rtt| rtt.min_ns);
    let both = route.zip(seen.route_reverse.as_ref());
    let symmetry = both.and_then(|(there, back)| known_routes::compare_symmetry(there, back));
    let asymmetric = symmetry.as_ref().is_some_and(|found| found.asymmetric);
    let watch = seen.hop_load.as_ref();
    let analysis = PathAnalysis {
        version: crate::VERSION,
        rtt,
        rtt_reverse: seen.round_trips_reverse.as_ref().and_then(hop_delays::summarize_rtt),
        hops: route.map(hop_delays::compute_hop_delays).unwrap_or_default(),
        path_mtu: seen.mtu.as_ref().and_then(hop_delays::derive_path_mtu),
        narrow_link: watch
            .map(|watch| narrow_link::judge_narrow_link(seen, watch, known, capacity)),
        route_number: route.map(|route| known_routes::assign_route_number(known, route)),
        route_change: route.and_then(|route| compare_with_previous(known, route, floor)),
        symmetry: symmetry.map(|found| found.symmetry),
    };
    let case =
        path_findings::PathFindingInput { plan, observation, analysis: &analysis, asymmetric };
    let (findings, caveats) =
        (path_findings::list_path_findings(&case), path_caveats::list_path_caveats(&case));
    RunConclusion { analysis, findings, caveats }
}

/// Compares a route with the one before it; `floor` is the minimum RTT of the echoes, which is more
/// accurate than that of a trace.
pub(super) fn compare_with_previous(
    known: &[KnownRoute],
    route: &ObservedRoute,
    floor: Option<u64>,
) -> Option<RouteDifference> {
    let before = known_routes::find_previous_route(known, route)?;
    let measured = route_difference::compute_rtt_step(floor, before.rtt_min_ns);
    let mut change = compare_routes(route, &before.route);
    change.other_number = Some(before.number);
    change.other_run = Some(before.run_id.clone());
    change.rtt_step_ns = measured.or(change.rtt_step_ns);
    Some(change)
}
