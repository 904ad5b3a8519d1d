//! Findings about the path, with advice.
//!
//! - [`reachability`]: a destination that does not answer, or a trace that does not reach it
//! - [`packet_size_findings`]: packets that are dropped for their size, and segments that do not fit;
//!   TCP options that a device strips
//! - [`route_findings`]: changes, alternatives, different forward and return routes;
//!   the narrow link

mod packet_size_findings;
mod reachability;
mod route_findings;

#[cfg(test)]
mod tests;

use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::path::{PathAnalysis, PathObservation, PathPlan};

/// The input of every finding.
pub struct PathFindingInput<'a> {
    pub plan: &'a PathPlan,
    pub observation: &'a PathObservation,
    pub analysis: &'a PathAnalysis,
    /// The forward and return routes share few autonomous systems.
    pub asymmetric: bool,
}

/// In order of importance: what stops traffic, then what slows it, then information.
const FINDINGS: [fn(&PathFindingInput) -> Option<ReportFinding>; 13] = [
    reachability::find_silent_destination,
    reachability::find_unreached_destination,
    reachability::find_route_loop,
    packet_size_findings::find_black_hole,
    packet_size_findings::find_oversized_segments,
    packet_size_findings::find_stripped_options,
    route_findings::report_narrow_link,
    packet_size_findings::find_mtu_below_interface,
    packet_size_findings::find_clamped_segments,
    route_findings::find_route_change,
    route_findings::find_asymmetry,
    route_findings::find_load_balancing,
    route_findings::find_rewritten_packets,
];

pub fn list_path_findings(case: &PathFindingInput) -> Vec<ReportFinding> {
    FINDINGS.iter().filter_map(|find| find(case)).collect()
}
