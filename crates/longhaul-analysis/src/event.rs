//! What caused a lasting change of a measured path?
//!
//! Read in this order: [`Evidence`] (what stands before and after), [`explain`] (the entry: causes,
//! what stayed, which other paths), [`follow_up()`] (what to measure next), [`case_text()`] (a text for
//! the operator of a path). One file for each cause; `candidate` weighs them, `turn` says when
//! something became another.
//!
//! Pure: times come with the evidence, and the same evidence gives the same causes for ever.

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

/// Of two with the same score, the earlier in this list is named first.
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

/// What is to be said of an event.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Explained {
    /// The likeliest first; none: no cause was found.
    pub causes: Vec<Finding>,
    /// What stayed as it was, as sentences.
    pub unchanged: Vec<String>,
    /// Other paths that changed with it, and what they share.
    pub scope: Option<String>,
    /// How the change came to bear, where the limit of bulk runs is another one since. No cause.
    pub effect: Option<String>,
    /// The earlier event that this one reverses.
    pub undoes: Option<String>,
}

/// Names the causes of `event`, by what stands around it.
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
