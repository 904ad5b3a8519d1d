//! Cause: a policer appeared on the path or disappeared.
//!
//! We would see: an available-bandwidth run that finds its rate and burst where earlier runs found
//! none, or bulk runs limited by a policer, and a throughput near the policed rate.
//! Refuted by: a level far from that rate, the same policer before, or a change the other way.
//! Needs: `longhaul available --shaper` before and after, or bulk runs. To do: pace below the rate;
//! ask the operator.
//! Wrong when: a queue too short to show drops in its place.

use super::bucket::{self, Kind};
use super::candidate::Candidate;
use super::case::Case;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::BucketKind;

const POLICER: Kind = Kind {
    bucket: BucketKind::Policer,
    limiter: Limiter::Policer,
    appeared: "policer_appeared",
    gone: "policer_gone",
    changed: "policer_changed",
    noun: "policer",
    does: "to drop what exceeds its rate",
};

pub fn candidate(case: &Case) -> Option<Candidate> {
    bucket::candidate(case, &POLICER)
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, HOUR, bucket};
    use super::*;

    #[test]
    fn a_new_policer_comes_with_a_rate_to_pace_to() {
        let mut sketch = sketch::fell();
        let policer = bucket(BucketKind::Policer, 622_000_000, 160_000_000);
        sketch
            .estimate(-HOUR, 622e6, 400e6, None)
            .estimate(HOUR, 622e6, 150e6, Some(policer));
        let found = sketch.found(candidate).expect("a candidate");
        assert_eq!(found.cause, "policer_appeared");
        assert!((found.consistency - 1.0).abs() < 1e-9);
        assert!(
            found
                .advice
                .iter()
                .any(|a| a.expected_bps == Some(152_000_000)),
            "{:?}",
            found.advice
        );
    }

    #[test]
    fn a_shaper_is_no_policer() {
        let mut sketch = sketch::fell();
        let shaper = bucket(BucketKind::Shaper, 622_000_000, 160_000_000);
        sketch
            .estimate(-HOUR, 622e6, 400e6, None)
            .estimate(HOUR, 622e6, 150e6, Some(shaper));
        assert!(sketch.found(candidate).is_none());
    }
}
