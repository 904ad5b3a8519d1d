//! Cause: other traffic on the same links increased or decreased.
//!
//! We would see: available bandwidth that steps in the direction of the event while the capacity
//! stays. Refuted by: capacity that steps too, or available bandwidth that steps the other way.
//! Needs: available bandwidth and capacity before and after. To do: measure at other hours; ask the
//! operator how full the link is.
//!
//! Units: bit/s of IP. Wrong when: our own heavy runs used the path during the estimate.

use super::cause_selection::weight;
use super::event_case::EventCase;
use super::state_change::LevelStep;
use super::{bucket_change, event_format};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::quantity::PathQuantity;

/// The minimum step; smaller ones are within the error of two estimates.
const MIN_STEP_RATIO: f64 = 1.15;
/// Capacities within this ratio are equal.
const SAME_CAPACITY_RATIO: f64 = 1.15;
/// Consistency without an estimate of the available bandwidth on both sides.
const RUNS_ONLY_CONSISTENCY: f64 = 0.75;
/// Consistency if only the estimate before the event is missing.
const REMAINDER_CONSISTENCY: f64 = 0.85;
/// Available bandwidth above this multiple of the rate was not scarce.
const AMPLE_RATIO: f64 = 2.0;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let capacity = case.capacity();
    let slower = capacity.filter(|capacity| capacity.differs_by(SAME_CAPACITY_RATIO));
    if case.is_quantity(PathQuantity::Capacity)
        || slower.is_some_and(|capacity| case.is_explained_by_capacity(capacity))
    {
        return None;
    }
    match (case.available(), capacity) {
        (Some(step), _) => find_by_estimates(case, step, capacity),
        (None, Some(capacity)) => match case.median_available_since() {
            Some(left) => find_by_remainder(case, left, capacity),
            None => find_by_runs(case, capacity),
        },
        (None, None) => None,
    }
}

fn find_by_estimates(
    case: &EventCase,
    step: LevelStep,
    capacity: Option<LevelStep>,
) -> Option<ReportFinding> {
    if !step.differs_by(MIN_STEP_RATIO) {
        return None;
    }
    let less = step.after < step.before;
    let stayed = capacity.filter(|capacity| !capacity.differs_by(SAME_CAPACITY_RATIO));
    let [before, after] = step.format(event_format::format_rate);
    let text = format!(
        "{} cross traffic: available bandwidth {} from {before} to {after} {}{}",
        if less { "More" } else { "Less" },
        step.verb(),
        event_format::format_time_span(step.between_us),
        stayed.map_or_else(String::new, |c| {
            format!(" while capacity stayed at {}", event_format::format_rate(c.after))
        }),
    );
    let mut found = case.candidate("cross_traffic", weight::CROSS_TRAFFIC, step.between_us, text);
    let sure = if stayed.is_some() { 1.0 } else { 0.8 };
    if let (Some(capacity), None) = (capacity, stayed) {
        let [before, after] = capacity.format(event_format::format_rate);
        found.contradict(format!(
            "capacity went from {before} to {after}, which explains less than half of it"
        ));
    }
    found.confidence_ratio *= if case.is_worse() == Some(less) {
        sure * rate_available_fit(case, step.after, &mut found)
    } else {
        0.0
    };
    add_advice(case, less, &mut found);
    Some(found)
}

/// The link has less left than runs alone reached before, so others use it.
fn find_by_remainder(
    case: &EventCase,
    left_bps: f64,
    capacity: LevelStep,
) -> Option<ReportFinding> {
    let reached = case.event.before.median;
    if !case.is_quantity(PathQuantity::Goodput)
        || !case.has_fallen()
        || left_bps > reached / MIN_STEP_RATIO
    {
        return None;
    }
    let text = format!(
        "More cross traffic: {} of {} available since, and bulk runs reached {} before",
        event_format::format_rate(left_bps),
        event_format::format_rate(capacity.after),
        event_format::format_rate(reached),
    );
    let against = "available bandwidth before the event is not known";
    Some(create_partial_candidate(case, text, REMAINDER_CONSISTENCY, against))
}

/// Runs fill the same link at another rate, so others use more or less of it.
fn find_by_runs(case: &EventCase, capacity: LevelStep) -> Option<ReportFinding> {
    if !case.is_path_filled() {
        return None;
    }
    let text = format!(
        "{} cross traffic: bulk runs fill the path at {}, while capacity stayed at {}",
        if case.has_fallen() { "More" } else { "Less" },
        case.describe_filled_path(),
        event_format::format_rate(capacity.after),
    );
    let against = "a shaper or policer would look the same: available bandwidth is not known both before and after the event";
    Some(create_partial_candidate(case, text, RUNS_ONLY_CONSISTENCY, against))
}

/// Creates the candidate for which the available bandwidth is not known on both sides.
fn create_partial_candidate(
    case: &EventCase,
    text: String,
    consistency: f64,
    against: &str,
) -> ReportFinding {
    let mut found =
        case.candidate("cross_traffic", weight::CROSS_TRAFFIC, case.event.between_us, text);
    found.confidence_ratio *=
        if bucket_change::has_bucket_changed(case) { 0.5 } else { consistency };
    found.contradict(against);
    add_advice(case, case.has_fallen(), &mut found);
    found
}

fn add_advice(case: &EventCase, less: bool, found: &mut ReportFinding) {
    if less && case.is_worse() == Some(true) {
        let text = "Measure at other hours, and ask the operator for the utilisation of the bottleneck \
             link";
        found.advise("path", text);
    }
}

fn rate_available_fit(case: &EventCase, after_bps: f64, found: &mut ReportFinding) -> f64 {
    if bucket_change::has_bucket_changed(case) {
        found.contradict("a token bucket that appeared or disappeared at the same time changes available bandwidth by itself");
        return 0.5;
    }
    if case.has_route_changed() {
        let text = "the route changed at the same time: other links have other cross traffic";
        found.contradict(text);
        return 0.7;
    }
    if case.is_quantity(PathQuantity::Goodput)
        && case.has_fallen()
        && after_bps > case.event.before.median * AMPLE_RATIO
    {
        found.contradict(format!(
            "available bandwidth ({}) suffices for the rate before",
            event_format::format_rate(after_bps)
        ));
        return 0.3;
    }
    if case.is_quantity(PathQuantity::Goodput) && case.has_fallen() {
        found.support(format!(
            "throughput after {}, available bandwidth {}",
            event_format::format_rate(case.event.after.median),
            event_format::format_rate(after_bps)
        ));
    }
    1.0
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;
    use longhaul_model::report::v1::analysis::Limiter;

    fn consistency(before: [f64; 2], after: [f64; 2]) -> Option<f64> {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.estimate(-HOUR, before[0], before[1], None).estimate(HOUR, after[0], after[1], None);
        sketch.consistency(find_candidate, weight::CROSS_TRAFFIC)
    }

    #[test]
    fn guesses_that_stay_do_not_hide_a_full_path() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.guess(-HOUR, 622e6, 504e6).guess(HOUR, 622e6, 504e6);
        sketch.run_limited(-HOUR, Limiter::PathCapacity).run_limited(HOUR, Limiter::PathCapacity);
        let consistency = sketch.consistency(find_candidate, weight::CROSS_TRAFFIC);
        assert_eq!(consistency, Some(RUNS_ONLY_CONSISTENCY));
    }

    #[test]
    fn a_light_estimate_among_guesses_does_not_count_and_a_longer_one_does() {
        let mut sketch = event_test_builder::build_goodput_drop();
        for hour in 1..4 {
            sketch.guess(-hour * HOUR, 622e6, 504e6).guess(hour * HOUR, 622e6, 400e6);
        }
        sketch.light_estimate(2 * HOUR + 1, 622e6, 620e6);
        sketch.run_limited(-HOUR, Limiter::PathCapacity).run_limited(HOUR, Limiter::PathCapacity);
        let consistency = |sketch: &event_test_builder::EvidenceBuilder| {
            sketch.consistency(find_candidate, weight::CROSS_TRAFFIC)
        };
        assert_eq!(consistency(&sketch), Some(RUNS_ONLY_CONSISTENCY));
        sketch.estimate(4 * HOUR, 622e6, 150e6, None);
        assert_eq!(consistency(&sketch), Some(REMAINDER_CONSISTENCY));
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
            let mut sketch = event_test_builder::build_goodput_drop();
            sketch.capacity(-HOUR, 622e6).capacity(HOUR, 622e6);
            sketch.run_limited(HOUR, limiter);
            sketch.consistency(find_candidate, weight::CROSS_TRAFFIC)
        };
        assert_eq!(with(Limiter::PathCapacity), Some(RUNS_ONLY_CONSISTENCY));
        assert_eq!(with(Limiter::ReceiveWindow), None);
    }

    #[test]
    fn what_is_left_since_is_held_to_what_runs_reached_before() {
        let with = |left: f64| {
            let mut sketch =
                event_test_builder::build_level_step(PathQuantity::Goodput, 40e6, 18e6);
            sketch.capacity(-HOUR, 50e6).estimate(HOUR, 50e6, left, None);
            sketch.run_limited(HOUR, Limiter::PathCapacity);
            sketch.consistency(find_candidate, weight::CROSS_TRAFFIC)
        };
        assert_eq!(with(7e6), Some(REMAINDER_CONSISTENCY));
        // As much is left as before: traffic does not limit the runs.
        assert_eq!(with(41e6), None);
    }

    #[test]
    fn a_link_of_which_others_use_most_looks_slower_than_it_is() {
        let with = |capacity: f64, left: f64| {
            let mut sketch =
                event_test_builder::build_level_step(PathQuantity::Goodput, 40e6, 18e6);
            sketch.capacity(-HOUR, 50e6).estimate(HOUR, capacity, left, None);
            sketch.consistency(find_candidate, weight::CROSS_TRAFFIC)
        };
        assert_eq!(with(42e6, 8e6), Some(REMAINDER_CONSISTENCY));
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
