//! Detects that bulk runs are now limited by something else.
//!
//! We would see: another value of `limited_by` in most runs after the event than before it. That
//! explains the effect of the change but never its reason, so it is not named as a cause.
//! Refuted by: the same value. Needs: the limiters of runs before and after. To do: what the cause
//! advises. Wrong when: verdicts alternate between two equally tight limits.

use super::candidate::{Candidate, weight};
use super::case::Case;
use crate::throughput::words::name;

pub fn candidate(case: &Case) -> Option<Candidate> {
    let (before, after) = (case.limiter(false)?, case.limiter(true)?);
    if before == after {
        return None;
    }
    let text = format!(
        "Bulk runs were limited by {} before, and by {} since",
        name(before),
        name(after)
    );
    let mut found = Candidate::new("limiter_shift", case.event.between_us, text);
    found.weight = weight::LIMITER;
    found.consistency = 1.0;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, HOUR};
    use super::*;
    use longhaul_model::report::v1::analysis::Limiter;

    #[test]
    fn most_runs_of_each_side_decide() {
        let mut sketch = sketch::fell();
        for hours in 1..4 {
            sketch.run_limited(-hours * HOUR, Limiter::PathCapacity);
            sketch.run_limited(hours * HOUR, Limiter::ReceiveWindow);
        }
        sketch.run_limited(4 * HOUR, Limiter::Loss);
        let found = sketch.found(candidate).expect("a shift");
        assert_eq!(
            found.summary,
            "Bulk runs were limited by the capacity of the path before, and by the receive window since"
        );
        // It is never likely by itself.
        assert!(found.weight * found.consistency < super::super::candidate::LIKELY);
    }

    #[test]
    fn the_same_limit_is_no_shift() {
        let mut sketch = sketch::fell();
        sketch
            .run_limited(-HOUR, Limiter::Loss)
            .run_limited(HOUR, Limiter::Loss);
        assert!(sketch.found(candidate).is_none());
    }
}
