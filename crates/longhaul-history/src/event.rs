//! Finds the causes of a lasting change of a measured path.
//!
//! Read in this order: [`ChangeEvidence`] (the reports before and after the change), [`explain_event`] (the
//! entry point: causes, unchanged quantities, other paths), [`plan_follow_ups()`] (what to measure next),
//! [`build_operator_report()`] (a text for the operator of the path). Each cause has its own file;
//! `cause_selection` names the likely ones, and `state_change` finds the time of each change of state.
//!
//! Pure: all times come with the evidence, and the same evidence always gives the same causes.
//!
//! # Limiter shift
//!
//! Detects that bulk runs are now limited by something else.
//!
//! We would see: another value of `limited_by` in most runs after the event than before it. That
//! explains the effect of the change but never its reason, so it is not named as a cause.
//! Refuted by: the same value. Needs: the limiters of runs before and after. To do: what the cause
//! advises. Wrong when: verdicts alternate between two equally tight limits.
//!
//! # Shared end
//!
//! Cause: paths that share a host or a segment changed together.
//!
//! We would see: other paths of one of the two hosts, or through one of the hops, with an event of
//! their own at the same time. Refuted by: other paths of that host that stayed unchanged.
//! Needs: a mesh of measured paths. To do: check first what they share.
//! Wrong when: a host has few paths, or two problems begin at the same time.

mod bucket_change;
mod capacity_change;
mod cause_selection;
mod change_evidence;
mod change_scope;
mod cross_traffic;
mod event_case;
mod event_format;

fn describe_limiter_shift(case: &EventCase) -> Option<String> {
    let (before, after) = (case.frequent_limiter(false)?, case.frequent_limiter(true)?);
    (before != after).then(|| {
        format!(
            "{}s were limited by {} before, and by {} after",
            if case.transfer().is_some() { "Transfer" } else { "Bulk run" },
            name_limiter(before),
            name_limiter(after)
        )
    })
}

/// Consistency if the cause is an unknown part of what they share.
const PARTIAL_CONSISTENCY: f64 = 0.5;

fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
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
mod event_test_builder;
mod follow_up_plan;
mod host_facts;
mod host_setting;
mod host_software;
mod interface_change;
mod level_recovery;
mod operator_report_text;
mod path_mtu_change;
mod random_loss;
mod retune;
mod route_change;
mod rtt_step;
mod state_change;
mod test_parameter;
#[cfg(test)]
mod tests;
mod transfer_limiter;
mod unchanged_facts;

pub use change_evidence::{
    ChangeEvidence, EvidenceReport, HostRole, OtherPathChange, RouteChangeBaseRate, UnchangedPath,
};
pub use event_format::{format_date, format_quantity, format_time_span};
pub use follow_up_plan::{FollowUpKind, FollowUpMeasurement, plan_follow_ups};
pub use operator_report_text::{
    OperatorReport, OperatorReportKind, build_operator_report, pair_hops,
};

use cause_selection::weight;
use change_scope::SharedElement;
use event_case::{EventCase, LINK_QUANTITIES, TRANSFER_QUANTITIES};
use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, ReportFinding};

/// The quantities that a cause can affect, and the search for it.
type CauseSearch = (&'static [PathQuantity], fn(&EventCase) -> Option<ReportFinding>);

/// In order of precedence: candidates with equal scores are named in this order.
const CAUSES: [CauseSearch; 16] = [
    (&TRANSFER_QUANTITIES, test_parameter::find_candidate),
    (&LINK_QUANTITIES, interface_change::find_candidate),
    (&TRANSFER_QUANTITIES, host_setting::find_candidate),
    (&PathQuantity::ALL, level_recovery::find_candidate),
    (&PathQuantity::ALL, route_change::find_candidate),
    (&LINK_QUANTITIES, bucket_change::find_shaper_candidate),
    (&LINK_QUANTITIES, bucket_change::find_policer_candidate),
    (&LINK_QUANTITIES, capacity_change::find_candidate),
    (&TRANSFER_QUANTITIES, path_mtu_change::find_candidate),
    (&[PathQuantity::Goodput], retune::find_candidate),
    (&LINK_QUANTITIES, cross_traffic::find_candidate),
    (&PathQuantity::ALL, find_candidate),
    (&PathQuantity::ALL, transfer_limiter::find_candidate),
    (&TRANSFER_QUANTITIES, random_loss::find_candidate),
    (&LINK_QUANTITIES, host_software::find_candidate),
    (&PathQuantity::ALL, rtt_step::find_candidate),
];

/// The explanation of an event.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventExplanation {
    /// The most likely cause first; empty if none was found.
    pub causes: Vec<ReportFinding>,
    /// Sentences about quantities that did not change.
    pub unchanged: Vec<String>,
    /// Other paths that changed at the same time, and what they share.
    pub scope: Option<String>,
    /// The effect of the change, if bulk runs now have another limiter. It is not a cause.
    pub effect: Option<String>,
}

/// Finds the causes of `event` in the evidence around it.
pub fn explain_event(event: &ChangeEvent, evidence: &ChangeEvidence) -> EventExplanation {
    let case = EventCase { event, evidence };
    let possible = CAUSES.iter().filter(|(affected, _)| affected.contains(&event.quantity));
    let candidates = possible.filter_map(|(_, find_candidate)| find_candidate(&case)).collect();
    let mut causes = cause_selection::select_named_causes(candidates);
    let effect = describe_limiter_shift(&case);
    let tells_effect = [transfer_limiter::CAUSE, transfer_limiter::LOSS_CAUSE];
    let first = causes.first_mut().filter(|first| !tells_effect.contains(&first.cause.as_str()));
    if let (Some(first), Some(effect)) = (first, &effect) {
        first.support(effect.clone());
    }
    EventExplanation {
        causes,
        unchanged: unchanged_facts::list_unchanged(&case),
        scope: change_scope::find_change_scope(&case).map(|scope| scope.text),
        effect,
    }
}

#[cfg(test)]
mod limiter_shift_tests {
    use super::event_test_builder::{self, HOUR};
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

#[cfg(test)]
mod shared_end_tests {
    use super::change_evidence::{OtherPathChange, UnchangedPath};
    use super::event_test_builder::{self, DAY, build_pair};
    use super::*;
    use longhaul_model::report::v1::ChangeEvent;

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
