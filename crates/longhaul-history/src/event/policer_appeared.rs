//! Cause: a policer appeared on the path or disappeared.
//!
//! We would see: an available-bandwidth run that finds its rate and burst where earlier runs found
//! none, or bulk runs limited by a policer, and a throughput near the policed rate.
//! Refuted by: a level far from that rate, the same policer before, or a change the other way.
//! Needs: `longhaul available --shaper` before and after, or bulk runs. To do: pace below the rate;
//! ask the operator.
//! Wrong when: a queue too short to show drops in its place.

use super::bucket_change::{self, BucketCauseNames};
use super::cause_candidate::CauseCandidate;
use super::event_case::EventCase;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::TokenBucketKind;

const POLICER: BucketCauseNames = BucketCauseNames {
    bucket: TokenBucketKind::Policer,
    limiter: Limiter::Policer,
    appeared: "policer_appeared",
    gone: "policer_gone",
    changed: "policer_changed",
    noun: "policer",
    does: "to drop the excess over its rate",
};

pub fn find_candidate(case: &EventCase) -> Option<CauseCandidate> {
    bucket_change::find_bucket_candidate(case, &POLICER)
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR, build_bucket};
    use super::*;

    #[test]
    fn a_new_policer_comes_with_a_rate_to_pace_to() {
        let mut sketch = event_test_builder::build_goodput_drop();
        let policer = build_bucket(TokenBucketKind::Policer, 622_000_000, 160_000_000);
        sketch.estimate(-HOUR, 622e6, 400e6, None).estimate(HOUR, 622e6, 150e6, Some(policer));
        let found = sketch.run_cause(find_candidate).expect("a candidate");
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
        assert!(sketch.run_cause(find_candidate).is_none());
    }
}
