//! Cause: the narrow link became slower or faster.
//!
//! We would see: a step of the capacity in available-bandwidth runs, in the direction and at the
//! time of the event. Refuted by: a step the other way, or a throughput that stays above the new
//! capacity. Needs: capacity before and after. To do: ask the operator which link was changed.
//!
//! Units: bit/s of IP. Wrong when: a token bucket lets short bursts pass at another rate than bulk.

use super::bucket;
use super::candidate::{Candidate, weight};
use super::case::{self, Case, ask_operator};
use super::turn::Step;
use super::words;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::quantity::Quantity;

/// The minimum step; smaller ones are within the error of two estimates.
const LEAST_RATIO: f64 = 1.15;
/// A rate below this fraction of both capacities was never limited by them.
const UNFELT: f64 = 0.4;
/// Factor if the route changed: another route has other links.
const OTHER_LINK: f64 = 0.7;
/// Consistency without an estimate on both sides.
const BY_RUNS: f64 = 0.7;
/// Consistency for an event of the capacity itself, if only the route is known as well.
const SAME_ROUTE: f64 = 0.8;
const BUCKET_TOO: &str = "a token bucket came or went at the same time: short bursts take its peak rate for the capacity";
/// Tolerance: estimates of capacity and of goodput count different headers and have errors.
const ABOVE: f64 = 1.1;

pub fn candidate(case: &Case) -> Option<Candidate> {
    if !case.of_link() {
        return None;
    }
    match case.capacity() {
        Some(step) if case.is(Quantity::Capacity) => same_route(case, step),
        Some(step) => by_looks(case, step),
        None => by_runs(case),
    }
}

fn by_looks(case: &Case, step: Step) -> Option<Candidate> {
    if !step.beyond(LEAST_RATIO) {
        return None;
    }
    let shrank = step.after < step.before;
    let text = format!(
        "The capacity of the path {} from {} to {} ({}) {}",
        if shrank { "fell" } else { "rose" },
        words::rate(step.before),
        words::rate(step.after),
        words::change(step.ratio()),
        words::span(step.between_us),
    );
    let mut found = Candidate::new("capacity_change", step.between_us, text);
    found.weight = weight::LINK;
    found.consistency = match case.worse() {
        Some(worse) if worse == shrank => fits(case, step.before, step.after, &mut found),
        _ => 0.0,
    };
    if bucket::moved(case) {
        found.contradicts.push(BUCKET_TOO.to_owned());
        found.consistency *= 0.5;
    } else if !case.is_by_capacity(step) {
        found.contradicts.push(String::from(
            "others use far more of the link than it lost: their traffic makes it look slower to bursts",
        ));
        found.consistency *= 0.5;
    } else if case.rerouted() {
        found.contradicts.push(String::from(
            "the route changed at the same time: it is another link, not a slower one",
        ));
        found.consistency *= OTHER_LINK;
    }
    ask(case, shrank, &mut found);
    Some(found)
}

/// The capacity cannot explain itself, but an unchanged route shows that the same link changed.
fn same_route(case: &Case, step: Step) -> Option<Candidate> {
    let (Some(before), Some(after)) = case.routes_beside(false) else {
        return None;
    };
    if !step.beyond(LEAST_RATIO) || case.rerouted() || !case::same_route(after.value, before.value)
    {
        return None;
    }
    let shrank = step.after < step.before;
    let text = format!(
        "A link of the same route became {}: the path carries {} instead of {} {}",
        if shrank { "slower" } else { "faster" },
        words::rate(step.after),
        words::rate(step.before),
        words::span(step.between_us),
    );
    let mut found = Candidate::new("capacity_change", step.between_us, text);
    found.weight = weight::LINK;
    found.consistency = SAME_ROUTE;
    found.supports.push(String::from(
        "the route is the same before and after the event",
    ));
    if bucket::moved(case) {
        found.contradicts.push(BUCKET_TOO.to_owned());
        found.consistency *= 0.5;
    }
    ask(case, shrank, &mut found);
    Some(found)
}

/// Runs fill the path at a lower rate than it carried before, so its capacity fell.
fn by_runs(case: &Case) -> Option<Candidate> {
    let full = case.limiter(case.fell()) == Some(Limiter::PathCapacity);
    if !case.is(Quantity::Goodput) || !full {
        return None;
    }
    let (before, after) = (case.event.before.median, case.event.after.median);
    let text = format!(
        "The path has {} to give: bulk runs fill it at {}, and reached {} {}",
        if case.fell() { "less" } else { "more" },
        words::rate(before.min(after)),
        words::rate(before.max(after)),
        if case.fell() { "before" } else { "since" },
    );
    let mut found = Candidate::new("capacity_change", case.event.between_us, text);
    found.weight = weight::LINK;
    found.consistency = BY_RUNS;
    found.contradicts.push(String::from(
        "other traffic would look the same: no estimate of capacity stands on both sides of the event",
    ));
    ask(case, case.fell(), &mut found);
    Some(found)
}

fn ask(case: &Case, shrank: bool, found: &mut Candidate) {
    if case.worse() == Some(true) && shrank {
        found.advice.push(ask_operator(
            "Ask the operators of the path which link or interface now runs at that rate",
        ));
    }
}

/// Returns how well a rate fits between both capacities.
fn fits(case: &Case, before_bps: f64, after_bps: f64, found: &mut Candidate) -> f64 {
    if !matches!(case.event.quantity, Quantity::Goodput | Quantity::Available) {
        return 0.8;
    }
    let (high, low) = if case.fell() {
        (case.event.before.median, case.event.after.median)
    } else {
        (case.event.after.median, case.event.before.median)
    };
    let narrow = before_bps.min(after_bps);
    let told = format!(
        "{} is {:.0} % of the smaller capacity",
        words::rate(low),
        low / narrow * 100.0
    );
    if low > narrow * ABOVE {
        found.contradicts.push(told);
        return 0.0;
    }
    if high < narrow * UNFELT {
        found.contradicts.push(format!(
            "{} was far below either capacity",
            words::rate(high)
        ));
        return 0.3;
    }
    found.supports.push(told);
    1.0
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, HOUR};
    use super::*;

    fn consistency(before: f64, after: f64) -> Option<f64> {
        let mut sketch = sketch::fell();
        sketch
            .estimate(-HOUR, before, before * 0.8, None)
            .estimate(HOUR, after, after * 0.8, None);
        let found = sketch.found(candidate)?;
        Some(found.consistency)
    }

    #[test]
    fn a_narrower_link_explains_a_fall_to_it() {
        assert_eq!(consistency(622e6, 155e6), Some(1.0));
    }

    #[test]
    fn a_wider_link_contradicts_a_fall() {
        assert_eq!(consistency(155e6, 622e6), Some(0.0));
    }

    #[test]
    fn a_link_narrower_than_the_rate_is_an_error_of_the_estimate() {
        assert_eq!(consistency(622e6, 100e6), Some(0.0));
    }

    #[test]
    fn a_link_that_lost_far_less_than_what_was_free_is_not_the_cause() {
        let mut sketch = sketch::of(Quantity::Available, 450e6, 110e6);
        sketch
            .estimate(-HOUR, 622e6, 450e6, None)
            .estimate(HOUR, 520e6, 110e6, None);
        let found = sketch.found(candidate).unwrap();
        assert!(found.consistency <= 0.5, "{}", found.consistency);
    }

    #[test]
    fn a_link_that_was_never_felt_hardly_counts() {
        assert_eq!(consistency(10e9, 1e9), Some(0.3));
    }

    #[test]
    fn runs_that_fill_the_path_at_less_say_it_too() {
        let with = |limiter| {
            let mut sketch = sketch::fell();
            sketch.run_limited(HOUR, limiter);
            let (event, evidence) = (sketch.event(), sketch.evidence());
            let case = Case {
                event: &event,
                evidence: &evidence,
            };
            candidate(&case).map(|found| found.consistency)
        };
        assert_eq!(with(Limiter::PathCapacity), Some(BY_RUNS));
        assert_eq!(with(Limiter::ReceiveWindow), None);
    }

    #[test]
    fn a_capacity_that_fell_on_the_same_route_is_a_slower_link_and_on_another_one_it_is_not() {
        let with = |after: &[&str]| {
            let mut sketch = sketch::of(Quantity::Capacity, 622e6, 155e6);
            sketch
                .trace(-HOUR, &["10.1.0.1", "10.2.0.1"])
                .trace(HOUR, after);
            sketch
                .estimate(-HOUR, 622e6, 400e6, None)
                .estimate(HOUR, 155e6, 140e6, None);
            sketch.found(candidate)
        };
        let found = with(&["10.1.0.1", "10.2.0.1"]).expect("a candidate");
        assert!((found.consistency - SAME_ROUTE).abs() < 1e-9);
        assert!(found.summary.contains("155 Mbit/s instead of 622 Mbit/s"));
        assert!(!found.advice.is_empty());
        assert!(with(&["10.1.0.1", "10.7.0.1"]).is_none());
    }

    #[test]
    fn the_same_capacity_is_no_candidate() {
        assert_eq!(consistency(622e6, 600e6), None);
    }
}
