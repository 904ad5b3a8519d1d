//! Cause: recovery, the level before an earlier event has returned.
//!
//! We would see: a level after this event that equals the level before an earlier, still open one.
//! Refuted by: a level that moved on in the same direction. Needs: earlier events of the same
//! series. To do: nothing; inform those who repaired it.
//!
//! Units: those of the quantity. Wrong when: two unrelated problems happen to cancel each other.

use super::candidate::{Candidate, weight};
use super::case::Case;
use super::words;
use longhaul_model::report::v1::available::BucketKind;
use longhaul_model::report::v1::event::{Event, Level};

/// Levels are equal within this ratio, or within twice their scatter.
const SAME_RATIO: f64 = 0.15;
/// Consistency if only the level returned and no repaired cause is known.
const ALONE: f64 = 0.75;

pub fn candidate(case: &Case) -> Option<Candidate> {
    let mended = undone(case)?;
    let text = format!(
        "The {} is back at the level before the event of {}: {} then, {} now",
        case.event.quantity.title(),
        words::moment(mended.between_us[1]),
        words::value(case.event.quantity, mended.before.median),
        words::value(case.event.quantity, case.event.after.median),
    );
    let mut found = Candidate::new("recovery", case.event.between_us, text);
    found.weight = weight::RECOVERY;
    found.consistency = ALONE;
    if let Some(cause) = mended.causes.first() {
        found.supports.push(format!(
            "named as its cause was {}",
            words::quoted(&cause.cause.replace('_', " "))
        ));
    }
    let signs = signs(case);
    if !signs.is_empty() {
        found.consistency = 1.0;
        found.supports.extend(signs);
    }
    Some(found)
}

/// Returns the latest open event that this one reverses.
pub fn undone<'a>(case: &Case<'a>) -> Option<&'a Event> {
    let event = case.event;
    let earlier = case.evidence.earlier.iter().copied();
    earlier
        .filter(|e| e.quantity == event.quantity && e.pair == event.pair && e.id != event.id)
        .filter(|e| e.between_us[1] <= event.between_us[0])
        .filter(|e| (e.after.median < e.before.median) != case.fell())
        .filter(|e| same_level(&e.before, &event.after))
        .max_by_key(|e| e.between_us[1])
}

fn same_level(a: &Level, b: &Level) -> bool {
    let apart = (a.median - b.median).abs();
    let scatter = a.deviation.max(b.deviation);
    apart <= (a.median.abs() * SAME_RATIO).max(2.0 * scatter)
}

/// Returns the causes that disappeared at the same time.
fn signs(case: &Case) -> Vec<String> {
    let mut signs = Vec::new();
    if let Some(turn) = case
        .reroute(false)
        .filter(|turn| turn.lasted && case.timing(turn.between_us) > 0.5)
    {
        signs.push(format!(
            "the route changed with it, {}",
            words::span(turn.between_us)
        ));
    }
    for (kind, word) in [
        (BucketKind::Shaper, "shaper"),
        (BucketKind::Policer, "policer"),
    ] {
        let readings = case.buckets(kind);
        let turns = case.turns(readings, |a, b| a.is_some() == b.is_some());
        if turns
            .iter()
            .any(|turn| turn.to.is_none() && turn.lasted && case.timing(turn.between_us) > 0.5)
        {
            signs.push(format!("the {word} is no longer found"));
        }
    }
    signs
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, DAY, HOUR, T0};
    use super::*;

    fn with_earlier(before: f64, after: f64) -> Option<f64> {
        let mut sketch = sketch::of(
            longhaul_model::report::v1::quantity::Quantity::Goodput,
            150e6,
            250e6,
        );
        let mut earlier = sketch.event();
        earlier.id = String::from("earlier");
        earlier.between_us = [T0 - DAY, T0 - DAY + HOUR];
        earlier.before.median = before;
        earlier.after.median = after;
        sketch.earlier.push(earlier);
        Some(sketch.found(candidate)?.consistency)
    }

    #[test]
    fn a_level_that_came_back_is_a_recovery() {
        assert_eq!(with_earlier(255e6, 150e6), Some(ALONE));
    }

    #[test]
    fn a_level_that_never_was_is_none() {
        assert_eq!(with_earlier(900e6, 150e6), None);
        assert_eq!(with_earlier(100e6, 150e6), None);
    }
}
