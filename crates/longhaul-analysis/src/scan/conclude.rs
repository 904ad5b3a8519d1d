//! What follows from the cells of a scan?

use super::Conclusion;
use crate::VERSION;
use longhaul_model::report::v1::Throughput;
use longhaul_model::report::v1::scan::{Analysis, Observation, Plan};

/// Everything that follows from a scan; never fails.
pub fn conclude(
    _plan: &Plan,
    _observation: &Observation,
    _runs: &[Throughput],
    stopped_by: &str,
) -> Conclusion {
    Conclusion {
        analysis: Analysis {
            version: VERSION,
            stopped_by: stopped_by.to_owned(),
            ..Analysis::default()
        },
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}
