//! Caveats of a path run: what could not be measured.

use super::findings::Case;
use super::words;
use longhaul_model::report::v1::Caveat;

pub fn all(case: &Case) -> Vec<Caveat> {
    [
        silent_hops,
        rate_limited,
        tunnels,
        slow_answers,
        one_flow,
        few_answers,
        discarded,
        user_clock,
    ]
    .iter()
    .filter_map(|limit| limit(case))
    .collect()
}

fn in_state(case: &Case, state: &str) -> usize {
    let hops = &case.analysis.hops;
    hops.iter().filter(|hop| hop.state == state).count()
}

fn silent_hops(case: &Case) -> Option<Caveat> {
    let silent = in_state(case, "silent");
    (silent > 0).then(|| {
        let text = format!(
            "{} of {} answered nothing: links beside them cannot be told apart",
            silent,
            words::count(case.analysis.hops.len(), "hop")
        );
        Caveat::new("silent_hops", text)
    })
}

fn rate_limited(case: &Case) -> Option<Caveat> {
    let limited = in_state(case, "rate_limited");
    (limited > 0).then(|| {
        let text = format!(
            "{} limit their answers: what is missing there is no loss of the path",
            words::count(limited, "hop")
        );
        Caveat::new("rate_limited", text)
    })
}

fn tunnels(case: &Case) -> Option<Caveat> {
    let route = case.observation.route.as_ref()?;
    let labelled = route
        .hops
        .iter()
        .filter_map(|hop| hop.answers.first())
        .any(|a| !a.mpls.is_empty());
    let hidden = in_state(case, "tunnel") > 0;
    let text = match (hidden, labelled) {
        (false, false) => return None,
        (true, _) => "a tunnel hides hops: neighbouring hops need not be neighbours",
        (false, true) => {
            "hops with MPLS labels may answer from the end of their tunnel: their round trips say \
             little of their place"
        }
    };
    Some(Caveat::new("tunnel", text))
}

fn slow_answers(case: &Case) -> Option<Caveat> {
    let slow = in_state(case, "slow_answers");
    (slow > 0).then(|| {
        let text = format!(
            "{} answer later than hops behind them: their links have no delay of their own",
            words::count(slow, "hop")
        );
        Caveat::new("slow_answers", text)
    })
}

fn one_flow(case: &Case) -> Option<Caveat> {
    let route = case.observation.route.as_ref()?;
    let asked = case.plan.trace.as_ref()?.confidence_ratio?;
    match route.confidence_ratio {
        Some(found) if found + 1e-9 >= asked => None,
        found => {
            let text = format!(
                "alternatives of equal cost were looked for to {:.0} %, not to the asked {:.0} %",
                found.unwrap_or(0.0) * 100.0,
                asked * 100.0
            );
            Some(Caveat::new("alternatives_incomplete", text))
        }
    }
}

/// With fewer answers, the median is unreliable.
const FEW: u32 = 5;

fn few_answers(case: &Case) -> Option<Caveat> {
    let rtt = case.analysis.rtt.filter(|rtt| rtt.answered < FEW)?;
    let answers = words::count(rtt.answered as usize, "answer");
    let text = format!("round trips rest on {answers} only");
    Some(Caveat::new("few_answers", text))
}

fn discarded(case: &Case) -> Option<Caveat> {
    let seen = case.observation;
    let echoes = [&seen.round_trips, &seen.round_trips_reverse];
    let of_echoes: u32 = echoes
        .iter()
        .filter_map(|e| e.as_ref())
        .map(|e| e.discarded)
        .sum();
    let routes = [&seen.route, &seen.route_reverse];
    let of_routes: u32 = routes
        .iter()
        .filter_map(|r| r.as_ref())
        .map(|r| r.discarded)
        .sum();
    let all = of_echoes.saturating_add(of_routes);
    (all > 0).then(|| {
        let text = format!(
            "{} fitted no probe and were thrown away: forged, garbled or too late",
            words::count(all as usize, "answer")
        );
        Caveat::new("answers_discarded", text)
    })
}

fn user_clock(case: &Case) -> Option<Caveat> {
    let echoes = case.observation.round_trips.as_ref()?;
    (echoes.clock == "user").then(|| {
        Caveat::new(
            "user_clock",
            "times were taken by the program, not by the kernel: a busy host adds to them",
        )
    })
}
