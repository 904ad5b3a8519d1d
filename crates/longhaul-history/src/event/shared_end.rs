//! Cause: paths that share a host or a segment changed together.
//!
//! We would see: other paths of one of the two hosts, or through one of the hops, with an event of
//! their own at the same time. Refuted by: other paths of that host that stayed unchanged.
//! Needs: a mesh of measured paths. To do: check first what they share.
//! Wrong when: a host has few paths, or two problems begin at the same time.

use super::cause_selection::weight;
use super::change_scope::{self, SharedElement};
use super::event_case::EventCase;
use longhaul_model::report::v1::ReportFinding;

/// Consistency if the cause is an unknown part of what they share.
const PARTIAL_CONSISTENCY: f64 = 0.5;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let scope = change_scope::find_change_scope(case)?;
    let between_us = scope.between_us?;
    let (cause, consistency, look) = match &scope.shared {
        SharedElement::Host(host) => {
            ("shared_end", 1.0, format!("Check {host} and its access link first"))
        }
        SharedElement::PartOfHost(host) => {
            ("shared_end", PARTIAL_CONSISTENCY, format!("Check the access link of {host} first"))
        }
        SharedElement::Segment(hop) => {
            ("shared_segment", 1.0, format!("Check the segment at {hop} first"))
        }
        SharedElement::OnlyThisPath | SharedElement::Nothing => return None,
    };
    let mut found = case.candidate(cause, weight::SHARED, between_us, scope.text);
    found.confidence_ratio *= consistency;
    if case.is_worse() == Some(true) {
        found.advise("path", look);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::change_evidence::{OtherPathChange, UnchangedPath};
    use super::super::event_test_builder::{self, DAY, build_pair};
    use super::*;
    use longhaul_model::report::v1::event::ChangeEvent;

    fn score(apart_us: i64, stayed: bool) -> f64 {
        let sketch = event_test_builder::build_goodput_drop();
        let event = sketch.event();
        let between_us = event.between_us.map(|us| us + apart_us);
        let other = ChangeEvent { pair: build_pair("slac", "in2p3"), between_us, ..event.clone() };
        let third = build_pair("slac", "nikhef");
        let mut evidence = sketch.evidence();
        evidence.other_path_changes = vec![OtherPathChange { event: &other, route: None }];
        if stayed {
            evidence.unchanged_paths = vec![UnchangedPath { pair: &third, route: None }];
        }
        let case = EventCase { event: &event, evidence: &evidence };
        find_candidate(&case).map_or(0.0, |found| found.confidence_ratio)
    }

    #[test]
    fn changes_of_one_time_count_and_old_ones_do_not() {
        assert!((score(0, false) - weight::SHARED).abs() < 1e-9);
        assert!(score(-3 * DAY, false).abs() < 1e-9);
        assert!(score(0, true) < 0.5);
    }
}
