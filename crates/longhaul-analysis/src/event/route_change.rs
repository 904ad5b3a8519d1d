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

use super::candidate::{Candidate, weight};
use super::case::{Case, Reroute, ask_operator};
use super::evidence::BaseRate;
use super::words;
use crate::path::words::{count, hops};
use longhaul_model::report::v1::available::BucketKind;
use longhaul_model::report::v1::path::{ChangeKind, Route};
use longhaul_model::report::v1::quantity::Quantity;

/// Factor for a change of the return route alone, which affects acknowledgements only.
const BACK_ONLY: f64 = 0.8;
/// A step below this fraction of the event's own step does not explain it.
const SMALL_PART: f64 = 0.25;
/// The minimum ratio between the rates of two routes that is reported.
const FELT: f64 = 1.15;
/// The maximum number of hop names in a sentence.
const NAMED: usize = 4;

pub fn candidate(case: &Case) -> Option<Candidate> {
    let (there, back) = (case.reroute(false), case.reroute(true));
    let near = |turn: &Reroute| case.timing(turn.between_us) * consistency(case, turn);
    let turn = match (&there, &back) {
        (Some(a), Some(b)) if near(b) > near(a) => b,
        (Some(a), _) => a,
        (None, Some(b)) => b,
        (None, None) => return None,
    };
    let mut found = Candidate::new("route_change", turn.between_us, summary(case, turn));
    found.weight = weight::ROUTE;
    found.consistency = consistency(case, turn);
    evidence(case, turn, &mut found);
    if !turn.back
        && let Some(other) = back.filter(|b| near(b) > 0.0)
    {
        found.supports.push(format!(
            "the way back changed too, {}",
            words::span(other.between_us)
        ));
    }
    if case.worse() == Some(true) {
        found.advice.push(ask_operator(
            "Send both routes to the operators of the hops that differ, and ask whether the new one is meant",
        ));
    }
    Some(found)
}

/// Returns how well the route change can explain the event.
fn consistency(case: &Case, turn: &Reroute) -> f64 {
    let kind = match turn.change.kind {
        ChangeKind::OneHop | ChangeKind::SeveralHops => 1.0,
        ChangeKind::SameAs => 0.7,
        ChangeKind::LastOctet | ChangeKind::EndNotReached => 0.5,
        ChangeKind::Same | ChangeKind::SilentHop | ChangeKind::Stutter => 0.0,
    };
    if !turn.lasted || against(case, turn) {
        return 0.0;
    }
    if turn.back { kind * BACK_ONLY } else { kind }
}

/// Returns true if an event of the RTT or the hop count contradicts the two routes.
fn against(case: &Case, turn: &Reroute) -> bool {
    let grew = case.event.after.median - case.event.before.median;
    let by_route = match case.event.quantity {
        Quantity::RttFloor => turn.change.rtt_step_ns.map(|ns| ns as f64 / 1e3),
        Quantity::Hops if !turn.back => {
            Some(turn.after.hops.len() as f64 - turn.before.hops.len() as f64)
        }
        _ => None,
    };
    by_route.is_some_and(|step| step * grew <= 0.0 || step.abs() < grew.abs() * SMALL_PART)
}

fn summary(case: &Case, turn: &Reroute) -> String {
    let pair = &case.event.pair;
    let (from, to) = if turn.back {
        (&pair.to, &pair.from)
    } else {
        (&pair.from, &pair.to)
    };
    format!(
        "The route from {} to {} changed {}: {}; {}",
        words::quoted(from),
        words::quoted(to),
        words::span(turn.between_us),
        ranges(turn),
        base_rate(case.evidence.base_rate),
    )
}

/// Formats the ranges: `hops 3-7 stand where hops 3-11 stood (17 hops before, 13 after)`.
fn ranges(turn: &Reroute) -> String {
    let range =
        |range: &longhaul_model::report::v1::path::ChangedRange| match (range.here, range.other) {
            (Some(_), None) => format!("{} came in", hops(range.here)),
            (None, _) => format!("{} went", hops(range.other)),
            _ => format!(
                "{} stand where {} stood",
                hops(range.here),
                hops(range.other)
            ),
        };
    let (before, after) = (turn.before.hops.len(), turn.after.hops.len());
    if turn.change.kind == ChangeKind::EndNotReached && turn.change.ranges.is_empty() {
        return format!(
            "traces no longer reach the end (after {})",
            count(after, "hop")
        );
    }
    let all: Vec<String> = turn.change.ranges.iter().map(range).collect();
    format!(
        "{} ({} before, {after} after)",
        all.join(", "),
        count(before, "hop")
    )
}

/// Formats how often such a change had no effect on this path; always part of the summary.
pub fn base_rate(rate: Option<BaseRate>) -> String {
    match rate {
        Some(rate) if rate.routes > 0 => format!(
            "of {} of route in 30 days on this path, {} had no change of throughput",
            count(rate.routes as usize, "change"),
            rate.routes.saturating_sub(rate.felt)
        ),
        Some(_) => String::from("no other change of route in 30 days on this path"),
        None => {
            String::from("how often routes of this path change without effect is not yet known")
        }
    }
}

fn evidence(case: &Case, turn: &Reroute, found: &mut Candidate) {
    found.supports.extend(newcomers(turn));
    if let Some(step) = case.rtt_step() {
        let way = if step.after > step.before {
            "rose"
        } else {
            "fell"
        };
        found.supports.push(format!(
            "the round trip {way} with it, from {} to {}",
            words::delay_us(step.before),
            words::delay_us(step.after)
        ));
    }
    for (title, step) in [
        ("capacity", case.capacity()),
        ("available bandwidth", case.available()),
    ] {
        found
            .supports
            .extend(step.filter(|step| step.beyond(FELT)).map(|step| {
                format!(
                    "{title} of the old route {}, of the new one {}",
                    words::rate(step.before),
                    words::rate(step.after)
                )
            }));
    }
    for (kind, word) in [
        (BucketKind::Shaper, "shaper"),
        (BucketKind::Policer, "policer"),
    ] {
        let appeared = super::bucket::appeared(case, kind);
        found.supports.extend(appeared.map(|turn| {
            format!(
                "on the new route there is a {word}: {}",
                super::bucket::told(turn.to)
            )
        }));
    }
    if turn.change.kind <= ChangeKind::SameAs {
        found
            .contradicts
            .push(String::from("only within the same networks as before"));
    }
    if turn.back {
        found.contradicts.push(String::from(
            "only the way back changed; payload takes the same way as before",
        ));
    }
    let unfelt = |rate: &BaseRate| rate.routes >= 4 && rate.felt * 4 < rate.routes;
    if case.evidence.base_rate.as_ref().is_some_and(unfelt) {
        found.contradicts.push(String::from(
            "most changes of route on this path changed nothing else",
        ));
    }
    if !turn.lasted {
        found
            .contradicts
            .push(String::from("the old route is back, and the level is not"));
    } else if against(case, turn) {
        found.contradicts.push(String::from(
            "round trips or hops by the routes do not change so",
        ));
    }
}

/// Lists the hops that only the new route has, by name if known.
fn newcomers(turn: &Reroute) -> Option<String> {
    let own = |route: &'_ Route| -> Vec<(u8, String, String)> {
        let hop = |hop: &longhaul_model::report::v1::path::Hop| {
            let answer = hop.answers.first()?;
            let shown = answer.name.as_ref().unwrap_or(&answer.address);
            Some((hop.ttl, answer.address.clone(), words::quoted(shown)))
        };
        route.hops.iter().filter_map(hop).collect()
    };
    let before = own(turn.before);
    let known = |address: &str| before.iter().any(|(_, old, _)| old == address);
    let new: Vec<String> = own(turn.after)
        .into_iter()
        .filter(|(_, address, _)| !known(address))
        .take(NAMED)
        .map(|(ttl, _, name)| format!("{name} (hop {ttl})"))
        .collect();
    (!new.is_empty()).then(|| format!("new on the way: {}", new.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, DAY, HOUR};
    use super::*;

    const OLD: [&str; 4] = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.9.0.1"];
    const NEW: [&str; 4] = ["10.1.0.1", "10.7.0.1", "10.8.0.1", "10.9.0.1"];

    fn score(sketch: &sketch::Sketch) -> f64 {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = Case {
            event: &event,
            evidence: &evidence,
        };
        let found = candidate(&case);
        found.map_or(0.0, |found| found.score(event.between_us, case.tau_us()))
    }

    #[test]
    fn another_route_at_the_time_counts_in_full() {
        let mut sketch = sketch::fell();
        sketch.trace(-HOUR, &OLD).trace(HOUR, &NEW);
        assert!((score(&sketch) - weight::ROUTE).abs() < 1e-9);
    }

    #[test]
    fn a_trace_made_during_the_change_is_no_route() {
        let mut sketch = sketch::fell();
        let mixed = ["10.1.0.1", "10.2.0.1", "10.8.0.1", "10.9.0.1"];
        sketch
            .trace(-40 * sketch::MINUTE, &OLD)
            .trace(-35 * sketch::MINUTE, &OLD);
        sketch.trace(0, &mixed);
        sketch
            .trace(35 * sketch::MINUTE, &NEW)
            .trace(40 * sketch::MINUTE, &NEW);
        let found = sketch.found(candidate).expect("the change of route");
        assert!(
            found
                .summary
                .contains("hops 2-3 stand where hops 2-3 stood"),
            "{}",
            found.summary
        );
    }

    #[test]
    fn another_route_long_ago_counts_nothing() {
        let mut sketch = sketch::fell();
        sketch
            .trace(-4 * DAY, &OLD)
            .trace(-3 * DAY, &NEW)
            .trace(-HOUR, &NEW)
            .trace(HOUR, &NEW);
        assert!(score(&sketch) < 0.01);
    }

    #[test]
    fn the_old_route_back_at_the_new_level_speaks_against() {
        let mut sketch = sketch::fell();
        sketch.trace(-HOUR, &OLD).trace(0, &NEW);
        for hours in 1..6 {
            sketch.trace(hours * HOUR, &OLD);
        }
        assert!(score(&sketch).abs() < 1e-9);
    }

    #[test]
    fn a_silent_hop_is_no_change() {
        let mut sketch = sketch::fell();
        sketch
            .trace(-HOUR, &OLD)
            .trace(HOUR, &["10.1.0.1", "", "10.3.0.1", "10.9.0.1"]);
        assert!(score(&sketch).abs() < 1e-9);
    }

    #[test]
    fn a_shorter_round_trip_does_not_explain_a_longer_one() {
        let mut sketch = sketch::of(Quantity::RttFloor, 150_000.0, 160_000.0);
        // One millisecond per hop: the new route is one hop shorter.
        sketch
            .trace(-HOUR, &OLD)
            .trace(HOUR, &["10.1.0.1", "10.7.0.1", "10.9.0.1"]);
        assert!(score(&sketch).abs() < 1e-9);
    }

    #[test]
    fn the_base_rate_is_told() {
        let rate = BaseRate {
            routes: 21,
            felt: 2,
        };
        assert!(base_rate(Some(rate)).contains("21 changes of route"));
        assert!(base_rate(Some(rate)).contains("19 had no change"));
    }
}
