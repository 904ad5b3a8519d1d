//! Cause: the route changed.
//!
//! We would see: hops that differ, on the forward or return route, from one trace to the next at
//! the time of the event, and that stay. Refuted by: the old route back while the level stays; a
//! step of the RTT (or of the hop count) the other way, if that is the event. Needs: traces before
//! and after. To do: send both routes to the operators of the hops that differ.
//!
//! Source: SLAC's table of June 2003. Units: TTL, us. Error: the time between two traces.
//! Wrong when: a load balancer moved the flow; routes change more often than they matter (the base
//! rate is always reported).

use super::cause_selection::weight;
use super::change_evidence::RouteChangeBaseRate;
use super::event_case::{EventCase, RouteTransition};
use super::{bucket_change, event_format};
use longhaul_analysis::path::path_format::format_hop_change;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::available::TokenBucketKind;
use longhaul_model::report::v1::path::{ObservedHop, RouteChangeKind};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::units::count_of;

/// Factor for a change of the return route alone, which affects acknowledgements only.
const RETURN_ONLY_FACTOR: f64 = 0.8;
/// A step below this fraction of the event's own step does not explain it.
const MIN_STEP_FRACTION: f64 = 0.25;
/// The minimum ratio between the rates of two routes that is reported.
const MIN_REPORTED_RATIO: f64 = 1.15;
/// The maximum number of hop names in a sentence.
const MAX_NAMED_HOPS: usize = 4;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let (there, back) = (case.nearest_route_change(false), case.nearest_route_change(true));
    let near = |turn: &RouteTransition| case.timing(turn.between_us) * rate_route_fit(case, turn);
    let turn = match (&there, &back) {
        (Some(a), Some(b)) if near(b) > near(a) => b,
        (Some(a), _) => a,
        (None, Some(b)) => b,
        (None, None) => return None,
    };
    let mut found =
        case.candidate("route_change", weight::ROUTE, turn.between_us, format_summary(case, turn));
    found.confidence_ratio *= rate_route_fit(case, turn);
    add_route_evidence(case, turn, &mut found);
    if !turn.is_return
        && let Some(other) = back.filter(|b| near(b) > 0.0)
    {
        found.support(format!(
            "the reverse route changed too, {}",
            event_format::format_time_span(other.between_us)
        ));
    }
    if case.is_worse() == Some(true) {
        let text = "Send both routes to the operators of the hops that differ, and ask whether the new \
             route is intended";
        found.advise("path", text);
    }
    Some(found)
}

/// Returns how well the route change can explain the event.
fn rate_route_fit(case: &EventCase, turn: &RouteTransition) -> f64 {
    let kind = match turn.change.kind {
        RouteChangeKind::OneHop | RouteChangeKind::SeveralHops => 1.0,
        RouteChangeKind::SameAs => 0.7,
        RouteChangeKind::LastOctet | RouteChangeKind::EndNotReached => 0.5,
        RouteChangeKind::Same | RouteChangeKind::SilentHop | RouteChangeKind::Stutter => 0.0,
    };
    if !turn.lasted || contradicts_routes(case, turn) {
        return 0.0;
    }
    if turn.is_return { kind * RETURN_ONLY_FACTOR } else { kind }
}

/// Returns true if an event of the RTT or the hop count contradicts the two routes.
fn contradicts_routes(case: &EventCase, turn: &RouteTransition) -> bool {
    let grew = case.event.after.median - case.event.before.median;
    let by_route = match case.event.quantity {
        PathQuantity::RttFloor => turn.change.rtt_step_ns.map(|ns| ns as f64 / 1e3),
        PathQuantity::Hops if !turn.is_return => {
            Some(turn.after.hops.len() as f64 - turn.before.hops.len() as f64)
        }
        _ => None,
    };
    by_route.is_some_and(|step| step * grew <= 0.0 || step.abs() < grew.abs() * MIN_STEP_FRACTION)
}

fn format_summary(case: &EventCase, turn: &RouteTransition) -> String {
    let pair = &case.event.pair;
    let (from, to) = if turn.is_return { (&pair.to, &pair.from) } else { (&pair.from, &pair.to) };
    format!(
        "The route from {} to {} changed {}: {}; {}",
        event_format::sanitize_name(from),
        event_format::sanitize_name(to),
        event_format::format_time_span(turn.between_us),
        format_changed_ranges(turn),
        format_base_rate(case.evidence.base_rate),
    )
}

/// Formats the ranges: `hops 3-11 replaced by hops 3-7 (17 hops before, 13 after)`.
fn format_changed_ranges(turn: &RouteTransition) -> String {
    let (before, after) = (turn.before.hops.len(), turn.after.hops.len());
    if turn.change.kind == RouteChangeKind::EndNotReached && turn.change.ranges.is_empty() {
        return format!(
            "traces no longer reach the destination (after {})",
            count_of(after as u64, "hop")
        );
    }
    let all: Vec<String> = turn.change.ranges.iter().map(format_hop_change).collect();
    format!("{} ({} before, {after} after)", all.join(", "), count_of(before as u64, "hop"))
}

/// Formats how often such a change had no effect on this path; always part of the summary.
pub fn format_base_rate(rate: Option<RouteChangeBaseRate>) -> String {
    match rate {
        Some(rate) if rate.route_changes > 0 => format!(
            "of {} of route in 30 days on this path, {} had no effect on throughput",
            count_of(u64::from(rate.route_changes), "change"),
            rate.route_changes.saturating_sub(rate.with_effect)
        ),
        Some(_) => String::from("no other route change in 30 days on this path"),
        None => String::from("the base rate of route changes without effect is not yet known"),
    }
}

fn add_route_evidence(case: &EventCase, turn: &RouteTransition, found: &mut ReportFinding) {
    found.supports.extend(list_new_hops(turn));
    if let Some(step) = case.rtt_step() {
        let [before, after] = step.format(event_format::format_delay_us);
        let verb = step.verb();
        found.support(format!("the RTT {verb} at the same time, from {before} to {after}"));
    }
    for (title, step) in [("capacity", case.capacity()), ("available bandwidth", case.available())]
    {
        if let Some(step) = step.filter(|step| step.differs_by(MIN_REPORTED_RATIO)) {
            let [before, after] = step.format(event_format::format_rate);
            found.support(format!("{title} on the old route {before}, on the new one {after}"));
        }
    }
    for kind in [TokenBucketKind::Shaper, TokenBucketKind::Policer] {
        if let Some(turn) = bucket_change::find_appeared_bucket(case, kind) {
            let figures = bucket_change::format_bucket(turn.to);
            let word = bucket_change::name_bucket(kind);
            found.support(format!("on the new route there is a {word}: {figures}"));
        }
    }
    if turn.change.kind <= RouteChangeKind::SameAs {
        found.contradict("only within the same networks as before");
    }
    if turn.is_return {
        let text = "only the reverse route changed; the payload takes the same route as before";
        found.contradict(text);
    }
    let unfelt = |rate: &RouteChangeBaseRate| {
        rate.route_changes >= 4 && rate.with_effect * 4 < rate.route_changes
    };
    if case.evidence.base_rate.as_ref().is_some_and(unfelt) {
        found.contradict("most route changes on this path had no other effect");
    }
    if !turn.lasted {
        found.contradict("the old route is back, but the level is not");
    } else if contradicts_routes(case, turn) {
        found.contradict("RTT or hop count of the routes do not change accordingly");
    }
}

/// Lists the hops that only the new route has, by name if known.
fn list_new_hops(turn: &RouteTransition) -> Option<String> {
    let first = |hop: &'_ ObservedHop| hop.answers.first().map(|answer| answer.address.clone());
    let before: Vec<String> = turn.before.hops.iter().filter_map(first).collect();
    let answers = turn.after.hops.iter().filter_map(|hop| Some((hop.ttl, hop.answers.first()?)));
    let new: Vec<String> = answers
        .filter(|(_, answer)| !before.contains(&answer.address))
        .take(MAX_NAMED_HOPS)
        .map(|(ttl, answer)| format!("{} (hop {ttl})", event_format::name_hop(answer)))
        .collect();
    (!new.is_empty()).then(|| format!("new hops: {}", new.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, DAY, HOUR};
    use super::*;

    const OLD: [&str; 4] = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.9.0.1"];
    const NEW: [&str; 4] = ["10.1.0.1", "10.7.0.1", "10.8.0.1", "10.9.0.1"];

    fn score(sketch: &event_test_builder::EvidenceBuilder) -> f64 {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = EventCase { event: &event, evidence: &evidence };
        let found = find_candidate(&case);
        found.map_or(0.0, |found| found.confidence_ratio)
    }

    #[test]
    fn another_route_at_the_time_counts_in_full() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &NEW);
        assert!((score(&sketch) - weight::ROUTE).abs() < 1e-9);
    }

    #[test]
    fn a_trace_made_during_the_change_is_no_route() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let mixed = ["10.1.0.1", "10.2.0.1", "10.8.0.1", "10.9.0.1"];
        sketch
            .trace(-40 * event_test_builder::MINUTE, &OLD)
            .trace(-35 * event_test_builder::MINUTE, &OLD);
        sketch.trace(0, &mixed);
        sketch
            .trace(35 * event_test_builder::MINUTE, &NEW)
            .trace(40 * event_test_builder::MINUTE, &NEW);
        let found = sketch.run_cause(find_candidate).expect("the change of route");
        assert!(found.summary.contains("hops 2-3 replaced by hops 2-3"), "{}", found.summary);
    }

    #[test]
    fn another_route_long_ago_counts_nothing() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(-4 * DAY, &OLD).trace(-3 * DAY, &NEW).trace(-HOUR, &NEW).trace(HOUR, &NEW);
        assert!(score(&sketch) < 0.01);
    }

    #[test]
    fn the_old_route_back_at_the_new_level_speaks_against() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(-HOUR, &OLD).trace(0, &NEW);
        for hours in 1..6 {
            sketch.trace(hours * HOUR, &OLD);
        }
        assert!(score(&sketch).abs() < 1e-9);
    }

    #[test]
    fn a_silent_hop_is_no_change() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &["10.1.0.1", "", "10.3.0.1", "10.9.0.1"]);
        assert!(score(&sketch).abs() < 1e-9);
    }

    #[test]
    fn a_shorter_round_trip_does_not_explain_a_longer_one() {
        let mut sketch =
            event_test_builder::build_level_step(PathQuantity::RttFloor, 150_000.0, 160_000.0);
        // One millisecond per hop: the new route is one hop shorter.
        sketch.trace(-HOUR, &OLD).trace(HOUR, &["10.1.0.1", "10.7.0.1", "10.9.0.1"]);
        assert!(score(&sketch).abs() < 1e-9);
    }

    #[test]
    fn the_base_rate_is_told() {
        let rate = RouteChangeBaseRate { route_changes: 21, with_effect: 2 };
        assert!(format_base_rate(Some(rate)).contains("21 changes of route"));
        assert!(format_base_rate(Some(rate)).contains("19 had no effect"));
    }
}
