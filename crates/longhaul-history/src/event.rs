//! Finds the causes of a lasting change of a measured path.
//!
//! Read in this order: [`ChangeEvidence`] (the reports before and after the change), [`explain_event`] (the
//! entry point: causes, unchanged quantities, other paths), [`plan_follow_ups()`] (what to measure next),
//! [`format_operator_report()`] (a text for the operator of the path). Each cause has its own file;
//! `cause_selection` names the likely ones, and `state_change` finds the time of each change of state.
//!
//! Pure: all times come with the evidence, and the same evidence always gives the same causes.

mod bucket_change;
mod capacity_change;
mod cause_selection;
mod change_evidence;
mod change_scope;
mod cross_traffic;
mod event_case;
mod event_format;
#[cfg(test)]
mod event_test_builder;
mod follow_up_plan;
mod host_facts;
mod host_setting;
mod host_software;
mod interface_change;
mod level_recovery;
mod limiter_shift;
mod operator_report_text;
mod path_mtu_change;
mod retune;
mod route_change;
mod rtt_step;
mod shared_end;
mod state_change;
mod test_parameter;
#[cfg(test)]
mod tests;
mod unchanged_facts;

pub use change_evidence::{
    ChangeEvidence, EvidenceReport, HostRole, OtherPathChange, RouteChangeBaseRate, UnchangedPath,
};
pub use event_format::{format_date, format_quantity, format_time_span};
pub use follow_up_plan::{FollowUpKind, FollowUpMeasurement, plan_follow_ups};
pub use operator_report_text::format_operator_report;
pub use operator_report_text::route_pair_text::pair_hops;

use event_case::{EventCase, LINK_QUANTITIES, TRANSFER_QUANTITIES};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::quantity::PathQuantity;

/// The quantities that a cause can affect, and the search for it.
type CauseSearch = (&'static [PathQuantity], fn(&EventCase) -> Option<ReportFinding>);

/// In order of precedence: candidates with equal scores are named in this order.
const CAUSES: [CauseSearch; 14] = [
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
    (&PathQuantity::ALL, shared_end::find_candidate),
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
    let effect = limiter_shift::describe_limiter_shift(&case);
    if let (Some(first), Some(effect)) = (causes.first_mut(), &effect) {
        first.support(effect.clone());
    }
    EventExplanation {
        causes,
        unchanged: unchanged_facts::list_unchanged(&case),
        scope: change_scope::find_change_scope(&case).map(|scope| scope.text),
        effect,
    }
}
