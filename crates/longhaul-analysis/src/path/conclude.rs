//! Draws all conclusions from one path run.

use super::compare::{self, compare};
use super::{
    Capacity, Conclusion, KnownRoute, findings, hops, known, limits, mtu, narrow, rtt, symmetry,
};
use longhaul_model::report::v1::path::{Analysis, Observation, Plan, Route, RouteChange};

/// Judges the observation; `known` are earlier routes of this path in any order, `capacity` is that
/// of the whole path in the direction of the load, if an estimate exists.
pub fn conclude(
    plan: &Plan,
    observation: &Observation,
    known: &[KnownRoute],
    capacity: Option<Capacity>,
) -> Conclusion {
    let seen = observation;
    let rtt = seen.round_trips.as_ref().and_then(rtt::of);
    let route = seen.route.as_ref();
    let floor = rtt.map(|rtt| rtt.min_ns);
    let both = route.zip(seen.route_reverse.as_ref());
    let symmetry = both.and_then(|(there, back)| symmetry::of(there, back));
    let asymmetric = symmetry.as_ref().is_some_and(|found| found.asymmetric);
    let watch = seen.hop_load.as_ref();
    let analysis = Analysis {
        version: crate::VERSION,
        rtt,
        rtt_reverse: seen.round_trips_reverse.as_ref().and_then(rtt::of),
        hops: route.map(hops::delays).unwrap_or_default(),
        path_mtu: seen.mtu.as_ref().and_then(mtu::of),
        narrow_link: watch.map(|watch| narrow::judge(seen, watch, known, capacity)),
        route_number: route.map(|route| known::number(known, route)),
        route_change: route.and_then(|route| change(known, route, floor)),
        symmetry: symmetry.map(|found| found.symmetry),
    };
    let case = findings::Case {
        plan,
        observation,
        analysis: &analysis,
        asymmetric,
    };
    let (findings, caveats) = (findings::all(&case), limits::all(&case));
    Conclusion {
        analysis,
        findings,
        caveats,
    }
}

/// Compares a route with the one before it; `floor` is the minimum RTT of the echoes, which is more
/// accurate than that of a trace.
pub(super) fn change(
    known: &[KnownRoute],
    route: &Route,
    floor: Option<u64>,
) -> Option<RouteChange> {
    let before = known::before(known, route)?;
    let measured = compare::step(floor, before.rtt_min_ns);
    let mut change = compare(route, &before.route);
    change.other_number = Some(before.number);
    change.other_run = Some(before.run_id.clone());
    change.rtt_step_ns = measured.or(change.rtt_step_ns);
    Some(change)
}
