//! Is something else now the limit of bulk runs?
//!
//! We would see: another word for `limited_by` in most runs after the event than before it. That
//! explains what the change does; it never says why it came, so it is not named beside a cause.
//! Refuted by: the same word. Needs: what limited runs before and after.
//! To do: what the cause says. Wrong when: verdicts alternate between two limits of equal height.

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
