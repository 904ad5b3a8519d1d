//! Cause: paths that share a host or a segment changed together.
//!
//! We would see: other paths of one of the two hosts, or through one of the hops, with an event of
//! their own at the same time. Refuted by: other paths of that host that stayed unchanged.
//! Needs: a mesh of measured paths. To do: check first what they share.
//! Wrong when: a host has few paths, or two problems begin at the same time.

use super::candidate::{Candidate, weight};
use super::case::{Case, ask_operator};
use super::scope::{self, Shared};

/// Consistency if the cause is an unknown part of what they share.
const PART: f64 = 0.5;

pub fn candidate(case: &Case) -> Option<Candidate> {
    let scope = scope::scope(case)?;
    let between_us = scope.between_us?;
    let (cause, consistency, look) = match &scope.shared {
        Shared::End(host) => (
            "shared_end",
            1.0,
            format!("Look at {host} and its access first"),
        ),
        Shared::PartOfEnd(host) => (
            "shared_end",
            PART,
            format!("Look at the access of {host} first"),
        ),
        Shared::Segment(hop) => (
            "shared_segment",
            1.0,
            format!("Look at the segment at {hop} first"),
        ),
        Shared::OnlyThis | Shared::Nothing => return None,
    };
    let mut found = Candidate::new(cause, between_us, scope.text);
    found.weight = weight::SHARED;
    found.consistency = consistency;
    if case.worse() == Some(true) {
        found.advice.push(ask_operator(look));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::evidence::{Elsewhere, Steady};
    use super::super::sketch::{self, DAY, pair};
    use super::*;
    use longhaul_model::report::v1::event::Event;

    fn score(apart_us: i64, stayed: bool) -> f64 {
        let sketch = sketch::fell();
        let event = sketch.event();
        let between_us = event.between_us.map(|us| us + apart_us);
        let other = Event {
            pair: pair("slac", "in2p3"),
            between_us,
            ..event.clone()
        };
        let third = pair("slac", "nikhef");
        let mut evidence = sketch.evidence();
        evidence.elsewhere = vec![Elsewhere {
            event: &other,
            route: None,
        }];
        if stayed {
            evidence.steady = vec![Steady {
                pair: &third,
                route: None,
            }];
        }
        let case = Case {
            event: &event,
            evidence: &evidence,
        };
        candidate(&case).map_or(0.0, |found| found.score(event.between_us, case.tau_us()))
    }

    #[test]
    fn changes_of_one_time_count_and_old_ones_do_not() {
        assert!((score(0, false) - weight::SHARED).abs() < 1e-9);
        assert!(score(-3 * DAY, false).abs() < 1e-9);
        assert!(score(0, true) < 0.5);
    }
}
