//! What is wrong or worth knowing on the path, and what to do about it.
//!
//! - [`reach`]: a far end, or a trace, that gets no answer
//! - [`size`]: packets that do not pass, and segments that do not fit them
//! - [`options`]: TCP options that a device takes away
//! - [`routes`]: changes, alternatives, different ways there and back
//! - [`queue`]: the narrow link

mod options;
mod queue;
mod reach;
mod routes;
mod size;

#[cfg(test)]
mod tests;

use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::path::{Analysis, Observation, Plan};

/// What every finding looks at.
pub struct Case<'a> {
    pub plan: &'a Plan,
    pub observation: &'a Observation,
    pub analysis: &'a Analysis,
    /// Few autonomous systems are common to the ways there and back.
    pub asymmetric: bool,
}

/// What stops traffic comes first, then what slows it, then what is to be known.
const FINDINGS: [fn(&Case) -> Option<Finding>; 13] = [
    reach::far_end_silent,
    reach::end_not_reached,
    reach::looped,
    size::black_hole,
    size::segments_too_large,
    options::stripped,
    queue::narrow_link,
    size::below_interface,
    size::segments_clamped,
    routes::changed,
    routes::asymmetric,
    routes::load_balanced,
    routes::rewritten,
];

pub fn all(case: &Case) -> Vec<Finding> {
    FINDINGS.iter().filter_map(|find| find(case)).collect()
}
