//! Findings about routes: changes, asymmetry, alternatives, and devices that rewrite packets.
//!
//! # The narrow link
//!
//! Reports the narrow link, if the queue under load showed it.

use super::PathFindingInput;
use crate::path::path_format;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::path::{NarrowLink, RouteChangeKind, RouteDifference};
use longhaul_model::units::capitalize_first;
use std::collections::{BTreeMap, BTreeSet};

/// Reports a route that differs from the previous one.
pub fn find_route_change(case: &PathFindingInput) -> Option<ReportFinding> {
    let change = case.analysis.route_change.as_ref()?;
    let how = match change.kind {
        RouteChangeKind::SameAs => "within the same autonomous systems",
        RouteChangeKind::OneHop => "at one hop",
        RouteChangeKind::SeveralHops => "at several hops",
        _ => return None,
    };
    let number = case.analysis.route_number?;
    let other = change.other_number.unwrap_or(0);
    let summary = format!("The route changed {how}: now route {number}, before route {other}");
    let mut found = ReportFinding::new("route_changed", 0.9, summary);
    let ranges = change.ranges.iter().map(path_format::format_hop_change);
    found.supports.extend(ranges);
    found.supports.extend(describe_rtt_step(change));
    if number == other {
        let text =
            "both may be the same route as far as hops answered; silent hops may be the cause";
        found.contradict(text);
        found.confidence_ratio = 0.5;
    }
    if count_next_hops(case).is_some() {
        let text =
            "the path has equal-cost alternatives (ECMP): another flow may simply take another one";
        found.contradict(text);
        found.confidence_ratio = 0.6;
    }
    let text = "Measure throughput and RTT again: windows and streams that fit the old \
         route may not fit this one";
    found.advise("path", text);
    Some(found)
}

fn describe_rtt_step(change: &RouteDifference) -> Option<String> {
    let told = |ns: &i64| ns.unsigned_abs() >= path_format::MIN_STEP_NS;
    let ns = change.rtt_step_ns.filter(told)?;
    let way = if ns < 0 { "shorter" } else { "longer" };
    Some(format!("the RTT is {} {way} than before", path_format::format_delay(ns)))
}

/// Reports different forward and return routes.
pub fn find_asymmetry(case: &PathFindingInput) -> Option<ReportFinding> {
    let symmetry = case.analysis.symmetry.as_ref().filter(|_| case.asymmetric)?;
    let summary = format!(
        "Asymmetric routing: forward and reverse share {} % of the autonomous systems",
        (symmetry.shared_ratio * 100.0).round()
    );
    let mut found = ReportFinding::new("asymmetric_route", 0.8, summary);
    found.support(symmetry.text.clone());
    let text = "Examine each direction by itself: a change of RTT or loss may be in either";
    found.advise("path", text);
    Some(found)
}

/// Returns the number of next hops by hop, if there is more than one.
fn count_next_hops(case: &PathFindingInput) -> Option<BTreeMap<u8, usize>> {
    let route = case.observation.route.as_ref()?;
    let mut next: BTreeMap<(u8, &str), BTreeSet<&str>> = BTreeMap::new();
    for link in &route.links {
        next.entry((link.ttl, &link.from)).or_default().insert(&link.to);
    }
    let mut widest: BTreeMap<u8, usize> = BTreeMap::new();
    for ((ttl, _), to) in next.into_iter().filter(|(_, to)| to.len() > 1) {
        let width = widest.entry(ttl).or_default();
        *width = (*width).max(to.len());
    }
    (!widest.is_empty()).then_some(widest)
}

/// Reports several next hops of equal cost.
pub fn find_load_balancing(case: &PathFindingInput) -> Option<ReportFinding> {
    let widest = count_next_hops(case)?;
    let route = case.observation.route.as_ref()?;
    let behind: Vec<String> =
        widest.iter().map(|(ttl, width)| format!("{width} after hop {ttl}")).collect();
    let summary = format!("Load balancing across next hops (ECMP): {}", behind.join(", "));
    let mut found =
        ReportFinding::new("load_balanced", route.confidence_ratio.unwrap_or(0.9), summary);
    let flows: u32 = route.links.iter().map(|link| link.flows).max().unwrap_or(0);
    found.support(format!(
        "flows with other ports took other links (max flows on one link: {flows})"
    ));
    let text = "Parallel streams may use several links; one stream stays on one link, and two runs \
         may use different links";
    found.advise("sender", text);
    Some(found)
}

/// Reports a device that rewrites the packets it forwards.
pub fn find_rewritten_packets(case: &PathFindingInput) -> Option<ReportFinding> {
    let route = case.observation.route.as_ref()?;
    let answers = route.hops.iter().filter_map(|hop| Some((hop.ttl, hop.answers.first()?)));
    let (ttl, answer) = answers.into_iter().find(|(_, a)| !a.rewritten.is_empty())?;
    let what: Vec<String> = answer.rewritten.iter().map(|field| field.replace('_', " ")).collect();
    let summary = format!("A device before or at hop {ttl} rewrites packets: {}", what.join(", "));
    let mut found = ReportFinding::new("packets_rewritten", 0.85, summary);
    found.support(format!("{} quotes a packet that differs from the one sent", answer.address));
    found.advise("path", "Find the address translator or traffic conditioner before that hop");
    Some(found)
}

pub fn report_narrow_link(case: &PathFindingInput) -> Option<ReportFinding> {
    let link = case.analysis.narrow_link.as_ref()?;
    let (cause, advised) = match link.verdict.as_str() {
        "link" | "span" => ("narrow_link", advise_at_link(link)),
        "own_host" => (
            "narrow_link",
            (
                "sender",
                "This host's own interface is the bottleneck: use a faster one, or pace below its rate",
            ),
        ),
        "return_path" => (
            "return_path_queue",
            ("path", "Check for load in the direction of the acknowledgements, or prioritise them"),
        ),
        _ => return None,
    };
    let mut found = ReportFinding::new(cause, link.confidence_ratio, capitalize_first(&link.text));
    found.supports.extend(describe_rise(link));
    if case.asymmetric {
        let text = "forward and reverse paths differ, so a hop's answers may pass other queues";
        found.contradict(text);
    }
    let (place, text) = advised;
    found.advise(place, text.to_owned());
    Some(found)
}

fn describe_rise(link: &NarrowLink) -> Option<String> {
    let (after, before) = (link.after_ttl?, link.before_ttl?);
    Some(match after {
        0 => format!("the RTT grew from hop {before} on, and no earlier hop was unaffected"),
        _ => format!("the RTT up to hop {after} was unchanged and grew from hop {before} on"),
    })
}

fn advise_at_link(link: &NarrowLink) -> (&'static str, &'static str) {
    match link.after_ttl {
        Some(0) => {
            ("initiator", "The first link is the bottleneck: check this site's access link first")
        }
        _ => (
            "path",
            "Ask the operator of these hops; if a measurement at another hour names the same link, \
             the bottleneck is permanent",
        ),
    }
}
