//! Limited by the requested pacing rate.
//!
//! We would see: each stream at the requested pacing rate, with no other limit. Refuted by: a rate
//! well below it. Needs: the plan, `tcpi_pacing_rate`. To do: pace higher.
//! Source: SO_MAX_PACING_RATE of socket(7). Units: bit/s, headers included, so goodput is 3 to 5 %
//! lower. Wrong when: a queueing discipline paces as well.

use super::{DiagnosisCase, build_finding, to_rate};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;

pub fn diagnose_pacing(case: &DiagnosisCase) -> Option<ReportFinding> {
    let asked = case.scene.plan.pacing_bps.filter(|_| case.is_limited_by(Limiter::Pacing))?;
    let summary = format!(
        "Limited by the requested pacing: {} streams at {} each give {}{}",
        case.streams(),
        to_rate(asked),
        case.goodput(),
        case.describe_next_limit(),
    );
    let mut found = build_finding(case, "pacing", summary);
    found.advise("initiator", "Raise or remove the pacing rate to find the capacity of the path");
    Some(found)
}
