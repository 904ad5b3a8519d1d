//! Caveats of a path run: what could not be measured.

use super::path_findings::PathFindingInput;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::units::count_of;

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
