//! Draws all conclusions from one path run.

use super::path_findings::{self, PathFindingInput};
use super::route_difference::{self, compare_routes};
use super::{KnownRoute, PathCapacityEstimate, hop_delays, known_routes, narrow_link};
use crate::RunConclusion;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::path::{
    ObservedRoute, PathAnalysis, PathObservation, PathPlan, RouteDifference,
};
use longhaul_model::units::count_of;

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
    let (findings, caveats) = (path_findings::list_path_findings(&case), list_path_caveats(&case));
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

pub fn list_path_caveats(case: &PathFindingInput) -> Vec<ReportCaveat> {
    let limited = "rate-limit their answers: missing answers there are not path loss";
    let slow = "answer later than hops after them: no link delay can be given for them";
    let found = [
        check_silent_hops(case),
        check_hops(case, "rate_limited", limited),
        check_tunnels(case),
        check_hops(case, "slow_answers", slow),
        check_alternatives(case),
        check_few_answers(case),
        check_discarded(case),
        check_user_clock(case),
    ];
    found.into_iter().flatten().collect()
}

fn count_in_state(case: &PathFindingInput, state: &str) -> usize {
    case.analysis.hops.iter().filter(|hop| hop.state == state).count()
}

/// Returns a caveat if hops are in a state.
fn check_hops(case: &PathFindingInput, state: &str, text: &str) -> Option<ReportCaveat> {
    let count = count_in_state(case, state);
    let hops = count_of(count as u64, "hop");
    (count > 0).then(|| ReportCaveat::new(state, format!("{hops} {text}")))
}

fn check_silent_hops(case: &PathFindingInput) -> Option<ReportCaveat> {
    let silent = count_in_state(case, "silent");
    (silent > 0).then(|| {
        let text = format!(
            "{} of {} did not answer: the links around them cannot be distinguished",
            silent,
            count_of(case.analysis.hops.len() as u64, "hop")
        );
        ReportCaveat::new("silent_hops", text)
    })
}

fn check_tunnels(case: &PathFindingInput) -> Option<ReportCaveat> {
    let route = case.observation.route.as_ref()?;
    let labelled =
        route.hops.iter().filter_map(|hop| hop.answers.first()).any(|a| !a.mpls.is_empty());
    let hidden = count_in_state(case, "tunnel") > 0;
    let text = match (hidden, labelled) {
        (false, false) => return None,
        (true, _) => "a tunnel hides hops: consecutive hops may not be adjacent",
        (false, true) => {
            "hops with MPLS labels may answer from the end of their tunnel: their RTT says \
             little about their location"
        }
    };
    Some(ReportCaveat::new("tunnel", text))
}

fn check_alternatives(case: &PathFindingInput) -> Option<ReportCaveat> {
    let route = case.observation.route.as_ref()?;
    let asked = case.plan.trace.as_ref()?.confidence_ratio?;
    match route.confidence_ratio {
        Some(found) if found + 1e-9 >= asked => None,
        found => {
            let text = format!(
                "equal-cost paths were searched with a confidence of {:.0} %, not the requested {:.0} %",
                found.unwrap_or(0.0) * 100.0,
                asked * 100.0
            );
            Some(ReportCaveat::new("alternatives_incomplete", text))
        }
    }
}

/// With fewer answers, the median is unreliable.
const MIN_ANSWERS: u32 = 5;

fn check_few_answers(case: &PathFindingInput) -> Option<ReportCaveat> {
    let rtt = case.analysis.rtt.filter(|rtt| rtt.answered < MIN_ANSWERS)?;
    let answers = count_of(u64::from(rtt.answered), "answer");
    let text = format!("the RTT is based on {answers} only");
    Some(ReportCaveat::new("few_answers", text))
}

fn check_discarded(case: &PathFindingInput) -> Option<ReportCaveat> {
    let seen = case.observation;
    let echoes = [&seen.round_trips, &seen.round_trips_reverse];
    let of_echoes: u32 = echoes.iter().filter_map(|e| e.as_ref()).map(|e| e.discarded).sum();
    let routes = [&seen.route, &seen.route_reverse];
    let of_routes: u32 = routes.iter().filter_map(|r| r.as_ref()).map(|r| r.discarded).sum();
    let all = of_echoes.saturating_add(of_routes);
    (all > 0).then(|| {
        let text = format!(
            "{} matched no probe and were discarded: forged, damaged or too late",
            count_of(u64::from(all), "answer")
        );
        ReportCaveat::new("answers_discarded", text)
    })
}

fn check_user_clock(case: &PathFindingInput) -> Option<ReportCaveat> {
    let echoes = case.observation.round_trips.as_ref()?;
    (echoes.clock == "user").then(|| {
        let text = "times were taken by the program, not by the kernel: a busy host adds to them";
        ReportCaveat::new("user_clock", text)
    })
}
