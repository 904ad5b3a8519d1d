//! Cause: other traffic on the same links increased or decreased.
//!
//! We would see: available bandwidth that steps in the direction of the event while the capacity
//! stays. Refuted by: capacity that steps too, or available bandwidth that steps the other way.
//! Needs: available bandwidth and capacity before and after. To do: measure at other hours; ask the
//! operator how full the link is.
//!
//! Units: bit/s of IP. Wrong when: our own heavy runs used the path during the estimate.

use super::bucket;
use super::candidate::{Candidate, weight};
use super::case::{Case, ask_operator};
use super::turn::Step;
use super::words;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::quantity::Quantity;

/// The minimum step; smaller ones are within the error of two estimates.
const LEAST_RATIO: f64 = 1.15;
/// Capacities within this ratio are equal.
const SAME_CAPACITY: f64 = 1.15;
/// Consistency without an estimate of the available bandwidth on both sides.
const BY_RUNS: f64 = 0.75;
/// Consistency if only the estimate before the event is missing.
const BY_REMAINDER: f64 = 0.85;
/// Available bandwidth above this multiple of the rate was not scarce.
const AMPLE: f64 = 2.0;

pub fn candidate(case: &Case) -> Option<Candidate> {
    if case.is(Quantity::Capacity) || !case.of_link() {
        return None;
    }
    let capacity = case.capacity();
    let slower = capacity.filter(|capacity| capacity.beyond(SAME_CAPACITY));
    if slower.is_some_and(|capacity| case.is_by_capacity(capacity)) {
        return None;
    }
    match (case.available(), capacity) {
        (Some(step), _) => by_looks(case, step, capacity),
        (None, Some(capacity)) => match case.available_since() {
            Some(left) => by_remainder(case, left, capacity),
            None => by_runs(case, capacity),
        },
        (None, None) => None,
    }
}

fn by_looks(case: &Case, step: Step, capacity: Option<Step>) -> Option<Candidate> {
    if !step.beyond(LEAST_RATIO) {
        return None;
    }
    let less = step.after < step.before;
    let stayed = capacity.filter(|capacity| !capacity.beyond(SAME_CAPACITY));
    let text = format!(
        "{} of other traffic: available bandwidth {} from {} to {} {}{}",
        if less { "More" } else { "Less" },
        if less { "fell" } else { "rose" },
        words::rate(step.before),
        words::rate(step.after),
        words::span(step.between_us),
        stayed.map_or_else(String::new, |c| {
            format!(" while capacity stayed at {}", words::rate(c.after))
        }),
    );
    let mut found = Candidate::new("cross_traffic", step.between_us, text);
    found.weight = weight::CROSS_TRAFFIC;
    let sure = if stayed.is_some() { 1.0 } else { 0.8 };
    if let (Some(capacity), None) = (capacity, stayed) {
        found.contradicts.push(format!(
            "capacity went from {} to {}, which explains less than half of it",
            words::rate(capacity.before),
            words::rate(capacity.after),
        ));
    }
    found.consistency = if case.worse() == Some(less) {
        sure * fits(case, step.after, &mut found)
    } else {
        0.0
    };
    ask(case, less, &mut found);
    Some(found)
}

/// The link has less left than runs alone reached before, so others use it.
fn by_remainder(case: &Case, left_bps: f64, capacity: Step) -> Option<Candidate> {
    let reached = case.event.before.median;
    if !case.is(Quantity::Goodput) || !case.fell() || left_bps > reached / LEAST_RATIO {
        return None;
    }
    let text = format!(
        "More of other traffic: {} of {} are left since, and bulk runs reached {} before",
        words::rate(left_bps),
        words::rate(capacity.after),
        words::rate(reached),
    );
    let against = "what was available before the event is not known";
    Some(guessed(case, text, BY_REMAINDER, against))
}

/// Runs fill the same link at another rate, so others use more or less of it.
fn by_runs(case: &Case, capacity: Step) -> Option<Candidate> {
    let full = case.limiter(case.fell()) == Some(Limiter::PathCapacity);
    if !case.is(Quantity::Goodput) || !full {
        return None;
    }
    let text = format!(
        "{} of other traffic: bulk runs fill the path at {}, and reached {} {}, while its capacity stayed at {}",
        if case.fell() { "More" } else { "Less" },
        words::rate(case.event.before.median.min(case.event.after.median)),
        words::rate(case.event.before.median.max(case.event.after.median)),
        if case.fell() { "before" } else { "since" },
        words::rate(capacity.after),
    );
    Some(guessed(
        case,
        text,
        BY_RUNS,
        "a shaper or policer would look the same: what is available is not known on both sides of the event",
    ))
}

/// Creates the candidate for which the available bandwidth is not known on both sides.
fn guessed(case: &Case, text: String, consistency: f64, against: &str) -> Candidate {
    let mut found = Candidate::new("cross_traffic", case.event.between_us, text);
    found.weight = weight::CROSS_TRAFFIC;
    found.consistency = if bucket::moved(case) {
        0.5
    } else {
        consistency
    };
    found.contradicts.push(against.to_owned());
    ask(case, case.fell(), &mut found);
    found
}

fn ask(case: &Case, less: bool, found: &mut Candidate) {
    if less && case.worse() == Some(true) {
        found.advice.push(ask_operator(
            "Measure at other hours, and ask the operator how full the narrow link is",
        ));
    }
}

fn fits(case: &Case, after_bps: f64, found: &mut Candidate) -> f64 {
    if bucket::moved(case) {
        found.contradicts.push(String::from(
            "a token bucket that came or went at the same time changes what is available by itself",
        ));
        return 0.5;
    }
    if case.rerouted() {
        found.contradicts.push(String::from(
            "the route changed at the same time: other links have other traffic",
        ));
        return 0.7;
    }
    if case.is(Quantity::Goodput) && case.fell() && after_bps > case.event.before.median * AMPLE {
        found.contradicts.push(format!(
            "what is left ({}) is ample for the rate before",
            words::rate(after_bps)
        ));
        return 0.3;
    }
    if case.is(Quantity::Goodput) && case.fell() {
        found.supports.push(format!(
            "the throughput after ({}) stands against {} available",
            words::rate(case.event.after.median),
            words::rate(after_bps)
        ));
    }
    1.0
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, HOUR};
    use super::*;

    fn consistency(before: [f64; 2], after: [f64; 2]) -> Option<f64> {
        let mut sketch = sketch::fell();
        sketch
            .estimate(-HOUR, before[0], before[1], None)
            .estimate(HOUR, after[0], after[1], None);
        Some(sketch.found(candidate)?.consistency)
    }

    #[test]
    fn less_left_over_at_the_same_capacity_explains_a_fall() {
        assert_eq!(consistency([622e6, 400e6], [622e6, 150e6]), Some(1.0));
    }

    #[test]
    fn more_left_over_contradicts_a_fall() {
        assert_eq!(consistency([622e6, 200e6], [622e6, 280e6]), Some(0.0));
    }

    #[test]
    fn runs_that_fill_the_same_link_at_less_say_it_too() {
        let with = |limiter| {
            let mut sketch = sketch::fell();
            sketch.capacity(-HOUR, 622e6).capacity(HOUR, 622e6);
            sketch.run_limited(HOUR, limiter);
            Some(sketch.found(candidate)?.consistency)
        };
        assert_eq!(with(Limiter::PathCapacity), Some(BY_RUNS));
        assert_eq!(with(Limiter::ReceiveWindow), None);
    }

    #[test]
    fn what_is_left_since_is_held_to_what_runs_reached_before() {
        let with = |left: f64| {
            let mut sketch = sketch::of(Quantity::Goodput, 40e6, 18e6);
            sketch
                .capacity(-HOUR, 50e6)
                .estimate(HOUR, 50e6, left, None);
            sketch.run_limited(HOUR, Limiter::PathCapacity);
            Some(sketch.found(candidate)?.consistency)
        };
        assert_eq!(with(7e6), Some(BY_REMAINDER));
        // As much is left as before: traffic does not limit the runs.
        assert_eq!(with(41e6), None);
    }

    #[test]
    fn a_link_of_which_others_use_most_looks_slower_than_it_is() {
        let with = |capacity: f64, left: f64| {
            let mut sketch = sketch::of(Quantity::Goodput, 40e6, 18e6);
            sketch
                .capacity(-HOUR, 50e6)
                .estimate(HOUR, capacity, left, None);
            Some(sketch.found(candidate)?.consistency)
        };
        assert_eq!(with(42e6, 8e6), Some(BY_REMAINDER));
        // Half of the link is gone, and others use little of the rest.
        assert_eq!(with(25e6, 15e6), None);
    }

    #[test]
    fn a_narrower_link_is_not_traffic() {
        assert_eq!(consistency([622e6, 400e6], [155e6, 140e6]), None);
    }

    #[test]
    fn a_link_that_looks_slower_to_bursts_is_traffic_where_far_more_was_lost() {
        assert_eq!(consistency([622e6, 450e6], [520e6, 120e6]), Some(0.8));
        // As much as the link lost.
        assert_eq!(consistency([622e6, 450e6], [400e6, 220e6]), None);
    }

    #[test]
    fn enough_left_over_hardly_explains() {
        assert_eq!(consistency([10e9, 9e9], [10e9, 5e9]), Some(0.3));
    }
}
