//! Cause: the narrow link became slower or faster.
//!
//! We would see: a step of the capacity in available-bandwidth runs, in the direction and at the
//! time of the event. Refuted by: a step the other way, or a throughput that stays above the new
//! capacity. Needs: capacity before and after. To do: ask the operator which link was changed.
//!
//! Units: bit/s of IP. Wrong when: a token bucket lets short bursts pass at another rate than bulk.

use super::cause_selection::weight;
use super::event_case::{self, EventCase};
use super::state_change::LevelStep;
use super::{bucket_change, event_format};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::quantity::PathQuantity;

/// The minimum step; smaller ones are within the error of two estimates.
const MIN_STEP_RATIO: f64 = 1.15;
/// A rate below this fraction of both capacities was never limited by them.
const UNAFFECTED_RATIO: f64 = 0.4;
/// Factor if the route changed: another route has other links.
const ROUTE_CHANGED_FACTOR: f64 = 0.7;
/// Consistency without an estimate on both sides.
const RUNS_ONLY_CONSISTENCY: f64 = 0.7;
/// Consistency for an event of the capacity itself, if only the route is known as well.
const SAME_ROUTE_CONSISTENCY: f64 = 0.8;
const BUCKET_CHANGED_TEXT: &str = "a token bucket appeared or disappeared at the same time: short bursts measure its peak rate as capacity";
/// Tolerance: estimates of capacity and of goodput count different headers and have errors.
const CAPACITY_TOLERANCE: f64 = 1.1;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    match case.capacity() {
        Some(step) if case.is_quantity(PathQuantity::Capacity) => find_on_same_route(case, step),
        Some(step) => find_by_estimates(case, step),
        None => find_by_runs(case),
    }
}

fn find_by_estimates(case: &EventCase, step: LevelStep) -> Option<ReportFinding> {
    if !step.differs_by(MIN_STEP_RATIO) {
        return None;
    }
    let shrank = step.after < step.before;
    let [before, after] = step.format(event_format::format_rate);
    let text = format!(
        "The capacity of the path {} from {before} to {after} ({}) {}",
        step.verb(),
        event_format::format_change(step.ratio()),
        event_format::format_time_span(step.between_us),
    );
    let mut found = case.candidate("capacity_change", weight::LINK, step.between_us, text);
    found.confidence_ratio *= match case.is_worse() {
        Some(worse) if worse == shrank => rate_capacity_fit(case, step, &mut found),
        _ => 0.0,
    };
    if bucket_change::has_bucket_changed(case) {
        found.contradict(BUCKET_CHANGED_TEXT);
        found.confidence_ratio *= 0.5;
    } else if !case.is_explained_by_capacity(step) {
        found.contradict("cross traffic uses far more of the link than it lost: that makes it look slower to bursts");
        found.confidence_ratio *= 0.5;
    } else if case.has_route_changed() {
        let text = "the route changed at the same time: it is a different link, not a slower one";
        found.contradict(text);
        found.confidence_ratio *= ROUTE_CHANGED_FACTOR;
    }
    add_advice(case, shrank, &mut found);
    Some(found)
}

/// The capacity cannot explain itself, but an unchanged route shows that the same link changed.
fn find_on_same_route(case: &EventCase, step: LevelStep) -> Option<ReportFinding> {
    let (Some(before), Some(after)) = case.routes_around_event(false) else {
        return None;
    };
    if !step.differs_by(MIN_STEP_RATIO)
        || case.has_route_changed()
        || !event_case::is_same_route(after.value, before.value)
    {
        return None;
    }
    let shrank = step.after < step.before;
    let [before, after] = step.format(event_format::format_rate);
    let text = format!(
        "A link of the same route became {}: the path carries {after} instead of {before} {}",
        if shrank { "slower" } else { "faster" },
        event_format::format_time_span(step.between_us),
    );
    let mut found = case.candidate("capacity_change", weight::LINK, step.between_us, text);
    found.confidence_ratio *= SAME_ROUTE_CONSISTENCY;
    found.support("the route is the same before and after the event");
    if bucket_change::has_bucket_changed(case) {
        found.contradict(BUCKET_CHANGED_TEXT);
        found.confidence_ratio *= 0.5;
    }
    add_advice(case, shrank, &mut found);
    Some(found)
}

/// Runs fill the path at a lower rate than it carried before, so its capacity fell.
fn find_by_runs(case: &EventCase) -> Option<ReportFinding> {
    if !case.is_path_filled() {
        return None;
    }
    let fell = case.has_fallen();
    let (more, reached) = (if fell { "less" } else { "more" }, case.describe_filled_path());
    let text = format!("The path carries {more}: bulk runs fill it at {reached}");
    let mut found = case.candidate("capacity_change", weight::LINK, case.event.between_us, text);
    found.confidence_ratio *= RUNS_ONLY_CONSISTENCY;
    found.contradict("cross traffic would look the same: capacity was not estimated both before and after the event");
    add_advice(case, fell, &mut found);
    Some(found)
}

fn add_advice(case: &EventCase, shrank: bool, found: &mut ReportFinding) {
    if case.is_worse() == Some(true) && shrank {
        let text = "Ask the operators of the path which link or interface now runs at that rate";
        found.advise("path", text);
    }
}

/// Returns how well a rate fits between both capacities.
fn rate_capacity_fit(case: &EventCase, step: LevelStep, found: &mut ReportFinding) -> f64 {
    if !matches!(case.event.quantity, PathQuantity::Goodput | PathQuantity::Available) {
        return 0.8;
    }
    let (low, high) = case.ordered_levels();
    let narrow = step.before.min(step.after);
    let told = format!(
        "{} is {:.0} % of the smaller capacity",
        event_format::format_rate(low),
        low / narrow * 100.0
    );
    if low > narrow * CAPACITY_TOLERANCE {
        found.contradict(told);
        return 0.0;
    }
    if high < narrow * UNAFFECTED_RATIO {
        let high = event_format::format_rate(high);
        found.contradict(format!("{high} was far below either capacity"));
        return 0.3;
    }
    found.support(told);
    1.0
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;
    use longhaul_model::report::v1::analysis::Limiter;

    fn consistency(before: f64, after: f64) -> Option<f64> {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.estimate(-HOUR, before, before * 0.8, None).estimate(HOUR, after, after * 0.8, None);
        sketch.consistency(find_candidate, weight::LINK)
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
        let mut sketch =
            event_test_builder::build_level_step(PathQuantity::Available, 450e6, 110e6);
        sketch.estimate(-HOUR, 622e6, 450e6, None).estimate(HOUR, 520e6, 110e6, None);
        let fit = sketch.consistency(find_candidate, weight::LINK).unwrap();
        assert!(fit <= 0.5, "{fit}");
    }

    #[test]
    fn a_link_that_was_never_felt_hardly_counts() {
        assert_eq!(consistency(10e9, 1e9), Some(0.3));
    }

    #[test]
    fn runs_that_fill_the_path_at_less_say_it_too() {
        let with = |limiter| {
            let mut sketch = event_test_builder::build_goodput_drop();
            sketch.run_limited(HOUR, limiter);
            sketch.consistency(find_candidate, weight::LINK)
        };
        assert_eq!(with(Limiter::PathCapacity), Some(RUNS_ONLY_CONSISTENCY));
        assert_eq!(with(Limiter::ReceiveWindow), None);
    }

    #[test]
    fn a_capacity_that_fell_on_the_same_route_is_a_slower_link_and_on_another_one_it_is_not() {
        let with = |after: &[&str]| {
            let mut sketch =
                event_test_builder::build_level_step(PathQuantity::Capacity, 622e6, 155e6);
            sketch.trace(-HOUR, &["10.1.0.1", "10.2.0.1"]).trace(HOUR, after);
            sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 155e6, 140e6, None);
            sketch.run_cause(find_candidate)
        };
        let found = with(&["10.1.0.1", "10.2.0.1"]).expect("a candidate");
        assert!((found.confidence_ratio - weight::LINK * SAME_ROUTE_CONSISTENCY).abs() < 1e-9);
        assert!(found.summary.contains("155 Mbit/s instead of 622 Mbit/s"));
        assert!(!found.advice.is_empty());
        assert!(with(&["10.1.0.1", "10.7.0.1"]).is_none());
    }

    #[test]
    fn the_same_capacity_is_no_candidate() {
        assert_eq!(consistency(622e6, 600e6), None);
    }
}
