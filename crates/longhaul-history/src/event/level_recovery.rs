//! Cause: recovery, the level before an earlier event has returned.
//!
//! We would see: a level after this event that equals the level before an earlier, still open one.
//! Refuted by: a level that moved on in the same direction. Needs: earlier events of the same
//! series. To do: nothing; inform those who repaired it.
//!
//! Units: those of the quantity. Wrong when: two unrelated problems happen to cancel each other.

use super::cause_selection::weight;
use super::event_case::EventCase;
use super::{bucket_change, event_format};
use longhaul_model::report::v1::available::TokenBucketKind;
use longhaul_model::report::v1::{ChangeEvent, QuantityLevel, ReportFinding};

/// Levels are equal within this ratio, or within twice their scatter.
const SAME_RATIO: f64 = 0.15;
/// Consistency if only the level returned and no repaired cause is known.
const LEVEL_ONLY_CONSISTENCY: f64 = 0.75;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let mended = find_reversed_event(case)?;
    let text = format!(
        "The {} returned to the level before the event of {}: {} then, {} now",
        case.event.quantity.title(),
        event_format::format_time(mended.between_us[1]),
        event_format::format_quantity(case.event.quantity, mended.before.median),
        event_format::format_quantity(case.event.quantity, case.event.after.median),
    );
    let mut found = case.candidate("recovery", weight::RECOVERY, case.event.between_us, text);
    if let Some(cause) = mended.causes.first() {
        found.support(format!(
            "its reported cause was {}",
            event_format::sanitize_name(&cause.cause.replace('_', " "))
        ));
    }
    let signs = find_repaired_causes(case);
    if signs.is_empty() {
        found.confidence_ratio *= LEVEL_ONLY_CONSISTENCY;
    }
    found.supports.extend(signs);
    Some(found)
}

/// Returns the latest open event that this one reverses.
fn find_reversed_event<'a>(case: &EventCase<'a>) -> Option<&'a ChangeEvent> {
    let event = case.event;
    let earlier = case.evidence.open_events.iter().copied();
    earlier
        .filter(|e| e.quantity == event.quantity && e.pair == event.pair && e.id != event.id)
        .filter(|e| e.between_us[1] <= event.between_us[0])
        .filter(|e| (e.after.median < e.before.median) != case.has_fallen())
        .filter(|e| is_same_level(&e.before, &event.after))
        .max_by_key(|e| e.between_us[1])
}

fn is_same_level(a: &QuantityLevel, b: &QuantityLevel) -> bool {
    let apart = (a.median - b.median).abs();
    let scatter = a.deviation.max(b.deviation);
    apart <= (a.median.abs() * SAME_RATIO).max(2.0 * scatter)
}

/// Returns the causes that disappeared at the same time.
fn find_repaired_causes(case: &EventCase) -> Vec<String> {
    let mut signs = Vec::new();
    if let Some(turn) = case
        .nearest_route_change(false)
        .filter(|turn| turn.lasted && case.timing(turn.between_us) > 0.5)
    {
        signs.push(format!(
            "the route changed with it, {}",
            event_format::format_time_span(turn.between_us)
        ));
    }
    for kind in [TokenBucketKind::Shaper, TokenBucketKind::Policer] {
        let readings = case.buckets(kind);
        let turns = case.find_state_changes(readings, |a, b| a.is_some() == b.is_some());
        if turns
            .iter()
            .any(|turn| turn.to.is_none() && turn.lasted && case.timing(turn.between_us) > 0.5)
        {
            signs.push(format!("the {} is no longer detected", bucket_change::name_bucket(kind)));
        }
    }
    signs
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, DAY, HOUR, T0};
    use super::*;

    fn with_earlier(before: f64, after: f64) -> Option<f64> {
        let mut sketch = event_test_builder::build_level_step(
            longhaul_model::report::v1::quantity::PathQuantity::Goodput,
            150e6,
            250e6,
        );
        let mut earlier = sketch.event();
        earlier.id = String::from("earlier");
        earlier.between_us = [T0 - DAY, T0 - DAY + HOUR];
        earlier.before.median = before;
        earlier.after.median = after;
        sketch.earlier.push(earlier);
        sketch.consistency(find_candidate, weight::RECOVERY)
    }

    #[test]
    fn a_level_that_came_back_is_a_recovery() {
        assert_eq!(with_earlier(255e6, 150e6), Some(LEVEL_ONLY_CONSISTENCY));
    }

    #[test]
    fn a_level_that_never_was_is_none() {
        assert_eq!(with_earlier(900e6, 150e6), None);
        assert_eq!(with_earlier(100e6, 150e6), None);
    }
}
