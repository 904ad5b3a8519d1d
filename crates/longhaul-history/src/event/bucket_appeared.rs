//! Causes: a shaper or a policer appeared on the path or disappeared.

use super::bucket_change::{self, BucketCauseNames};
use super::cause_candidate::CauseCandidate;
use super::event_case::EventCase;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::TokenBucketKind;

const SHAPER: BucketCauseNames = BucketCauseNames {
    bucket: TokenBucketKind::Shaper,
    limiter: Limiter::Shaper,
    appeared: "shaper_appeared",
    gone: "shaper_gone",
    changed: "shaper_changed",
    noun: "shaper",
    does: "to queue the excess over its rate",
};

const POLICER: BucketCauseNames = BucketCauseNames {
    bucket: TokenBucketKind::Policer,
    limiter: Limiter::Policer,
    appeared: "policer_appeared",
    gone: "policer_gone",
    changed: "policer_changed",
    noun: "policer",
    does: "to drop the excess over its rate",
};

/// Cause: a shaper appeared on the path or disappeared.
///
/// We would see: an available-bandwidth run that finds peak rate, sustained rate and burst, not
/// found before, or bulk runs limited by a shaper, and a throughput near the sustained rate.
/// Refuted by: a level far from that rate, the same shaper before, or a change the other way.
/// Needs: `longhaul available --shaper` before and after, or bulk runs longer than the burst.
/// To do: ask the operator, with the three figures.
/// Wrong when: the bucket was never emptied before the event, so that it existed unnoticed.
pub fn find_shaper_candidate(case: &EventCase) -> Option<CauseCandidate> {
    bucket_change::find_bucket_candidate(case, &SHAPER)
}

/// Cause: a policer appeared on the path or disappeared.
///
/// We would see: an available-bandwidth run that finds its rate and burst where earlier runs found
/// none, or bulk runs limited by a policer, and a throughput near the policed rate.
/// Refuted by: a level far from that rate, the same policer before, or a change the other way.
/// Needs: `longhaul available --shaper` before and after, or bulk runs. To do: pace below the rate;
/// ask the operator.
/// Wrong when: a queue too short to show drops in its place.
pub fn find_policer_candidate(case: &EventCase) -> Option<CauseCandidate> {
    bucket_change::find_bucket_candidate(case, &POLICER)
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR, build_bucket};
    use super::*;
    use longhaul_model::report::v1::quantity::PathQuantity;

    fn found(sketch: &event_test_builder::EvidenceBuilder) -> Option<(f64, CauseCandidate)> {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = EventCase { event: &event, evidence: &evidence };
        let found = find_shaper_candidate(&case)?;
        Some((found.score(event.between_us, case.tau_us()), found))
    }

    #[test]
    fn a_new_shaper_at_the_level_counts_in_full() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 140e6, Some(shaper));
        let (score, found) = found(&sketch).expect("a candidate");
        assert!((score - 0.8).abs() < 1e-9, "{score}");
        assert_eq!(found.cause, "shaper_appeared");
        assert!(found.summary.contains("sustained 155 Mbit/s"), "{}", found.summary);
    }

    #[test]
    fn one_far_above_the_level_hardly_counts() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 622_000_000, 600_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 400e6, Some(shaper));
        assert!(found(&sketch).expect("a candidate").0 < 0.3);
    }

    #[test]
    fn the_same_one_as_before_is_no_cause() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch.estimate(-HOUR, 622e6, 140e6, Some(shaper.clone())).estimate(
            HOUR,
            622e6,
            140e6,
            Some(shaper),
        );
        assert!(found(&sketch).is_none());
    }

    #[test]
    fn a_lower_rate_of_the_same_one_is_told_as_such() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = |bps| Some(build_bucket(TokenBucketKind::Shaper, 622_000_000, bps));
        sketch.estimate(-HOUR, 622e6, 250e6, shaper(260_000_000));
        sketch.estimate(HOUR, 622e6, 150e6, shaper(160_000_000));
        let (score, found) = found(&sketch).expect("a candidate");
        assert_eq!(found.cause, "shaper_changed");
        assert!((score - 0.8).abs() < 1e-9, "{score}");
    }

    #[test]
    fn one_that_went_raises_a_rate_and_does_not_lower_it() {
        let gone = |mut sketch: event_test_builder::EvidenceBuilder| {
            let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
            sketch.estimate(-HOUR, 622e6, 140e6, Some(shaper)).estimate(HOUR, 622e6, 400e6, None);
            found(&sketch)
        };
        let (score, found) =
            gone(event_test_builder::build_level_step(PathQuantity::Goodput, 140e6, 280e6))
                .expect("one");
        assert_eq!((found.cause, score > 0.7), ("shaper_gone", true));
        // A short run after a fall fits into the burst, so it cannot show that the bucket is gone.
        assert!(gone(event_test_builder::build_goodput_drop()).is_none());
    }

    #[test]
    fn one_that_was_looked_for_late_is_there_since_runs_have_its_rate() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch
            .capacity(-2 * HOUR, 622e6)
            .capacity(HOUR, 622e6)
            .capacity(2 * HOUR, 622e6)
            .estimate(9 * HOUR, 622e6, 140e6, Some(shaper))
            .capacity(10 * HOUR, 622e6);
        let (score, found) = found(&sketch).expect("a candidate");
        assert_eq!(found.cause, "shaper_appeared");
        assert!(score > 0.75, "{score}");
    }

    #[test]
    fn without_any_look_before_faster_runs_say_that_it_was_not_there() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 200_000_000, 155_000_000);
        sketch.estimate(2 * HOUR, 622e6, 140e6, Some(shaper));
        let (score, found) = found(&sketch).expect("a candidate");
        assert_eq!(found.cause, "shaper_appeared");
        assert!(score > 0.75, "{score}");
    }

    #[test]
    fn bulk_runs_that_a_shaper_holds_say_it_too() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.run_limited(-HOUR, Limiter::PathCapacity).run_limited(HOUR, Limiter::Shaper);
        assert!(found(&sketch).expect("a candidate").0 > 0.7);
    }

    #[test]
    fn a_new_policer_comes_with_a_rate_to_pace_to() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let policer = build_bucket(TokenBucketKind::Policer, 622_000_000, 160_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 150e6, Some(policer));
        let found = sketch.run_cause(find_policer_candidate).expect("a candidate");
        assert_eq!(found.cause, "policer_appeared");
        assert!((found.consistency - 1.0).abs() < 1e-9);
        assert!(
            found.advice.iter().any(|a| a.expected_bps == Some(152_000_000)),
            "{:?}",
            found.advice
        );
    }

    #[test]
    fn a_shaper_is_no_policer() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let shaper = build_bucket(TokenBucketKind::Shaper, 622_000_000, 160_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 150e6, Some(shaper));
        assert!(sketch.run_cause(find_policer_candidate).is_none());
    }
}
