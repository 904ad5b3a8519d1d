//! Finds the causes of a lasting change of a measured path.
//!
//! Read in this order: [`Evidence`] (the reports before and after the change), [`explain`] (the
//! entry point: causes, unchanged quantities, other paths), [`follow_up()`] (what to measure next),
//! [`case_text()`] (a text for the operator of the path). Each cause has its own file; `candidate`
//! scores them, and `turn` finds the time of each change of state.
//!
//! Pure: all times come with the evidence, and the same evidence always gives the same causes.

mod bucket;
mod candidate;
mod capacity_change;
mod case;
mod case_text;
mod cross_traffic;
mod evidence;
mod follow_up;
mod host_facts;
mod host_setting;
mod host_software;
mod interface;
mod limiter_shift;
mod operator_note;
mod path_mtu;
mod policer_appeared;
mod recovery;
mod retune;
mod route_change;
mod rtt_step;
mod scope;
mod shaper_appeared;
mod shared_end;
#[cfg(test)]
mod sketch;
mod test_parameter;
#[cfg(test)]
mod tests;
mod turn;
mod unchanged;
mod words;

pub use case_text::case_text;
pub use case_text::routes::rows as hops_beside;
pub use evidence::{Audited, BaseRate, Elsewhere, Evidence, Note, Place, PlanChange, Seen, Steady};
pub use follow_up::{Cost, Measurement, Wanted, follow_up};
pub use words::{date, span, value};

use candidate::Candidate;
use case::Case;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::event::Event;

/// In order of precedence: candidates with equal scores are named in this order.
const CAUSES: [fn(&Case) -> Option<Candidate>; 15] = [
    test_parameter::candidate,
    interface::candidate,
    host_setting::candidate,
    recovery::candidate,
    route_change::candidate,
    shaper_appeared::candidate,
    policer_appeared::candidate,
    capacity_change::candidate,
    path_mtu::candidate,
    retune::candidate,
    cross_traffic::candidate,
    shared_end::candidate,
    host_software::candidate,
    operator_note::candidate,
    rtt_step::candidate,
];

/// The explanation of an event.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Explained {
    /// The most likely cause first; empty if none was found.
    pub causes: Vec<Finding>,
    /// Sentences about quantities that did not change.
    pub unchanged: Vec<String>,
    /// Other paths that changed at the same time, and what they share.
    pub scope: Option<String>,
    /// The effect of the change, if bulk runs now have another limiter. It is not a cause.
    pub effect: Option<String>,
    /// The earlier event that this one reverses.
    pub undoes: Option<String>,
}

/// Finds the causes of `event` in the evidence around it.
pub fn explain(event: &Event, evidence: &Evidence) -> Explained {
    let case = Case { event, evidence };
    let candidates = CAUSES.iter().filter_map(|cause| cause(&case)).collect();
    let mut causes = candidate::named(candidates, event.between_us, case.tau_us());
    let effect = limiter_shift::candidate(&case).map(|shift| shift.summary);
    if let (Some(first), Some(effect)) = (causes.first_mut(), &effect) {
        first.supports.push(effect.clone());
    }
    Explained {
        causes,
        unchanged: unchanged::unchanged(&case),
        scope: scope::scope(&case).map(|scope| scope.text),
        effect,
        undoes: recovery::undone(&case).map(|earlier| earlier.id.clone()),
    }
}
