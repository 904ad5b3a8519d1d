//! A full path: nothing to fix.
//!
//! We would see: a standing queue or a rate independent of the window, in most of the run, and a
//! goodput near its own best level. Refuted by: any limiter of the hosts, or a low steady rate.
//! Needs: RTT, arrivals. To do: nothing.
//!
//! Units: bit/s. Wrong when: other traffic shares the path; then this is only the free part of it.

use super::{DiagnosisCase, ReportFinding, build_finding, format_whole_percent, to_rate};
use crate::limit::interval_state::IntervalState;
use crate::limit::limiter_verdict::PRIMARY_RATIO;
use longhaul_model::report::v1::analysis::Limiter;

/// The minimum ratio of the goodput to the level that was reached.
const NEAR_RATIO: f64 = 0.85;

pub fn diagnose_full_path(case: &DiagnosisCase) -> Option<ReportFinding> {
    let share = case.verdict.shares.limiter(Limiter::PathCapacity);
    let near = case.goodput_bps() as f64 >= NEAR_RATIO * case.scene.level_bps;
    let bucket = case.scene.policer.is_some() || case.scene.bucket.is_some();
    if !case.is_limited_by(Limiter::PathCapacity) || share < PRIMARY_RATIO || !near || bucket {
        return None;
    }
    // A full path with a deep queue is not healthy.
    if super::deep_queue::diagnose_deep_queue(case).is_some() {
        return None;
    }
    let summary =
        format!("The path is full at {}; nothing to fix at the hosts", to_rate(case.goodput_bps()));
    let mut found = build_finding(case, "healthy", summary);
    found.support(super::describe_state_share(case, IntervalState::PathFull));
    let sawtooth = case.verdict.shares.state(IntervalState::Sawtooth);
    if sawtooth > 0.0 {
        found.support(format!(
            "growing back after losses in a full queue for {} of the bytes",
            format_whole_percent(sawtooth)
        ));
    }
    Some(found)
}
