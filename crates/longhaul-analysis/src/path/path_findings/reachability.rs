//! Detects a destination that does not answer, and traces that do not reach it.

use super::PathFindingInput;
use crate::path::path_format;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::path::{ObservedHop, ObservedRoute, RouteChangeKind};

/// Reports that no echo was answered.
pub fn find_silent_destination(case: &PathFindingInput) -> Option<ReportFinding> {
    let echoes = case.observation.round_trips.as_ref()?;
    if echoes.sent == 0 || case.analysis.rtt.is_some() {
        return None;
    }
    let to = &case.observation.address;
    let sent = echoes.sent;
    let summary = format!("{to} answered none of {sent} {} probes", echoes.protocol.word());
    let mut found = ReportFinding::new("far_end_silent", 0.9, summary);
    let route = case.observation.route.as_ref();
    match route.filter(|route| route.reached) {
        Some(route) => {
            found.confidence_ratio = 0.5;
            found.contradict(format!("the {} trace reached it", route.protocol.word()));
        }
        None => found.supports.extend(route.map(describe_last_answer)),
    }
    if echoes.discarded > 0 {
        let discarded = u64::from(echoes.discarded);
        found.contradict(format!("{discarded} answers matched no probe and were discarded"));
    }
    let text = "Try the other protocols: a firewall that drops one often lets another through";
    found.advise("path", text);
    found.advise("initiator", "Use TCP to an open port").command =
        Some(format!("longhaul path {to} --tcp"));
    Some(found)
}

/// Describes the last hop that answered.
fn describe_last_answer(route: &ObservedRoute) -> String {
    let answering = |hop: &&ObservedHop| !hop.answers.is_empty();
    match route.hops.iter().rfind(answering) {
        Some(hop) => format!(
            "the trace ends too: hop {} ({}) is the last to answer",
            hop.ttl, hop.answers[0].address
        ),
        None => String::from("no hop of the trace answered"),
    }
}

/// Reports that the trace no longer reaches the destination.
pub fn find_unreached_destination(case: &PathFindingInput) -> Option<ReportFinding> {
    let change = case.analysis.route_change.as_ref()?;
    let route = case.observation.route.as_ref()?;
    if change.kind != RouteChangeKind::EndNotReached {
        return None;
    }
    let mut found = ReportFinding::new(
        "end_not_reached",
        0.8,
        format!(
            "The trace no longer reaches {} (ended: {}); the previous one did",
            route.to,
            route.ended_by.replace('_', " ")
        ),
    );
    found.support(describe_last_answer(route));
    if let Some(rtt) = case.analysis.rtt {
        found.confidence_ratio = 0.3;
        let text = format!("the destination answers {} of {} probes", rtt.answered, rtt.sent);
        found.contradict(text);
    }
    found.advise("path", "Ask the operator of the network after the last hop that answers");
    Some(found)
}

/// Reports a routing loop.
pub fn find_route_loop(case: &PathFindingInput) -> Option<ReportFinding> {
    let route = case.observation.route.as_ref()?;
    let (first, last) = find_address_cycle(route)?;
    let between = path_format::format_hops(Some([first, last]));
    let summary = format!("Routing loop at {between}: the same routers answer again");
    let sure = if route.ended_by == "loop" { 0.95 } else { 0.7 };
    let mut found = ReportFinding::new("route_loop", sure, summary);
    let text = format!("hops {first} and {last} have the same address, with another between them");
    found.support(text);
    if route.reached {
        let text = "the trace reached its destination: the route may have changed during the trace";
        found.contradict(text);
        found.confidence_ratio = 0.4;
    }
    let text = "Inform the operator of these routers: two of them disagree about the route";
    found.advise("path", text);
    Some(found)
}

/// Returns the first address that repeats after a different one.
fn find_address_cycle(route: &ObservedRoute) -> Option<(u8, u8)> {
    let known: Vec<(u8, &str)> = route
        .hops
        .iter()
        .filter_map(|hop| Some((hop.ttl, hop.answers.first()?.address.as_str())))
        .collect();
    known.iter().enumerate().find_map(|(at, (ttl, address))| {
        let later = known[at + 1..].iter().skip_while(|(_, other)| other == address);
        let back = later.clone().find(|(_, other)| other == address);
        back.map(|(last, _)| (*ttl, *last))
    })
}
