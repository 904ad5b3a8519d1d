//! Detects that bulk runs are now limited by something else.
//!
//! We would see: another value of `limited_by` in most runs after the event than before it. That
//! explains the effect of the change but never its reason, so it is not named as a cause.
//! Refuted by: the same value. Needs: the limiters of runs before and after. To do: what the cause
//! advises. Wrong when: verdicts alternate between two equally tight limits.

use super::event_case::EventCase;
use longhaul_analysis::throughput::limiter_text::name_limiter;

pub fn describe_limiter_shift(case: &EventCase) -> Option<String> {
    let (before, after) = (case.frequent_limiter(false)?, case.frequent_limiter(true)?);
    (before != after).then(|| {
        format!(
            "Bulk runs were limited by {} before, and by {} after",
            name_limiter(before),
            name_limiter(after)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;
    use longhaul_model::report::v1::analysis::Limiter;

    #[test]
    fn most_runs_of_each_side_decide() {
        let mut sketch = event_test_builder::build_goodput_drop();
        for hours in 1..4 {
            sketch.run_limited(-hours * HOUR, Limiter::PathCapacity);
            sketch.run_limited(hours * HOUR, Limiter::ReceiveWindow);
        }
        sketch.run_limited(4 * HOUR, Limiter::Loss);
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = EventCase { event: &event, evidence: &evidence };
        assert_eq!(
            describe_limiter_shift(&case).expect("a shift"),
            "Bulk runs were limited by the capacity of the path before, and by the receive window after"
        );
    }

    #[test]
    fn the_same_limit_is_no_shift() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.run_limited(-HOUR, Limiter::Loss).run_limited(HOUR, Limiter::Loss);
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = EventCase { event: &event, evidence: &evidence };
        assert_eq!(describe_limiter_shift(&case), None);
    }
}
