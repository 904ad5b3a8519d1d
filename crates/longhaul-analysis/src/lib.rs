//! Pure functions from an observation to analysis, findings and caveats, for programs that have
//! measurements, whoever made them, and want conclusions.
//!
//! Nothing here reads the clock, the host or the disk, and the same observation always gives the
//! same conclusions for a given [`VERSION`].
//!
//! Read in this order: [`throughput`] (the entry: `conclude`), [`limit`] (the limiter of the
//! transfer), [`diagnose`] (reasons and advice), [`caveats`], [`stats`]. The accuracy of the
//! estimators is measured by `longhaul-accuracy`, in `bench/accuracy`.

#![forbid(unsafe_code)]

pub mod audit;
pub mod available_bandwidth;
pub mod capture_analysis;
pub mod caveats;
pub mod copy_adaptation;
pub mod copy_analysis;
pub mod diagnose;
pub mod flow_analysis;
pub mod imported;
pub mod latency;
pub mod limit;
pub mod load;
pub mod path;
pub mod predict;
pub mod repeat_command;
pub mod scan;
pub mod stats;
pub mod stop_rule;
pub mod throughput;
pub mod tune;

use longhaul_model::report::v1::{ReportCaveat, ReportFinding};

/// The version of the analysis; incremented when the same observation is judged differently.
pub const VERSION: u32 = 2;

/// The conclusions from one finished measurement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunConclusion<A> {
    pub analysis: A,
    pub findings: Vec<ReportFinding>,
    pub caveats: Vec<ReportCaveat>,
}
