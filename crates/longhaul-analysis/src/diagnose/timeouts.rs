//! Retransmission timeouts that stopped the flow.
//!
//! We would see: `tcpi_total_rto_time` taking a noticeable part of the run, or stalled intervals.
//! Refuted by: its absence; on kernels before 6.7 only stalls can be seen. Needs: that counter.
//! To do: find what drops whole bursts or the last segments of one.
//!
//! Source: Linux `struct tcp_info`. Units: shares of the run. Wrong when: the far end was down.

use super::{DiagnosisCase, build_finding, format_whole_percent};
use crate::limit::interval_state::IntervalState;
use crate::throughput::run_totals;
use longhaul_model::report::v1::ReportFinding;

const MIN_TIMEOUT_RATIO: f64 = 0.05;

pub fn diagnose_timeouts(case: &DiagnosisCase) -> Option<ReportFinding> {
    let streams = &case.scene.observation.streams;
    let readings = streams.iter().filter_map(|s| {
        let tcp = run_totals::last_tcp_info(&s.sender)?;
        Some((
            tcp.timeout_us? as f64 / s.sender.duration_us.max(1) as f64,
            tcp.timeouts.unwrap_or(0),
        ))
    });
    let (share, count) = readings.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0));
    let stalled = case.verdict.shares.state(IntervalState::StalledRto);
    if share.max(stalled) <= MIN_TIMEOUT_RATIO {
        return None;
    }
    let summary = format!(
        "Retransmission timeouts (RTO) stalled the flow for {} of the run in the worst stream ({count} timeouts)",
        format_whole_percent(share.max(stalled).min(1.0)),
    );
    let mut found = build_finding(case, "timeouts", summary);
    found.confidence_ratio = 0.8;
    found.advise("path", "Whole windows or the tails of bursts are lost: look for a policer, a shallow buffer, or slow-start overshoot (limit the window to about 1.5 × BDP)");
    Some(found)
}
