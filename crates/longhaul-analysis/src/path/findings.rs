//! Findings about the path, with advice.
//!
//! - [`reach`]: a destination that does not answer, or a trace that does not reach it
//! - [`size`]: packets that are dropped for their size, and segments that do not fit
//! - [`options`]: TCP options that a device strips
//! - [`routes`]: changes, alternatives, different forward and return routes
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

/// The input of every finding.
pub struct Case<'a> {
    pub plan: &'a Plan,
    pub observation: &'a Observation,
    pub analysis: &'a Analysis,
    /// The forward and return routes share few autonomous systems.
    pub asymmetric: bool,
}

/// In order of importance: what stops traffic, then what slows it, then information.
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
