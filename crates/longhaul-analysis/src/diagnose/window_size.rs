//! A receive buffer that was granted as requested, but requested too small.
//!
//! We would see: a requested receive buffer, granted in full, and the sender limited by the window.
//! Refuted by: a clipped grant (then the kernel is the cause), or no request at all.
//! Needs: `tcpi_rwnd_limited`, the buffer read back. To do: request more, or nothing.
//! Units: bytes. Wrong when: the application reads slowly and its queue was not sampled.

use super::{
    DiagnosisCase, FindingAdvice, build_finding, describe_state_share, repeat_command, to_rate,
};
use crate::limit::interval_state::IntervalState;
use crate::limit::limit_bounds;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::units::Bytes;

pub fn diagnose_window_size(case: &DiagnosisCase) -> Option<ReportFinding> {
    let asked = case.scene.plan.receive_buffer_bytes?;
    if !case.is_limited_by(Limiter::ReceiveWindow) || case.scene.receive_clip.is_some() {
        return None;
    }
    let window =
        limit_bounds::sum_advertised_windows(&case.scene).unwrap_or(asked) / case.streams();
    let summary = format!(
        "The requested receive buffer of {} gives a window of {}: {1} / {2} RTT = {3} per stream{4}",
        Bytes(asked),
        Bytes(window),
        case.rtt_text(),
        to_rate(case.allowed_bps(window)? / case.streams()),
        case.describe_next_limit(),
    );
    let mut found = build_finding(case, "receive_window", summary);
    found.support(describe_state_share(case, IntervalState::WindowClip));
    found.supports.extend(super::describe_in_flight(case));
    let wanted = case.better_window(asked);
    found.advice.push(FindingAdvice {
        command: Some(repeat_command(&format!("--receive-buffer {wanted}"))),
        expected_bps: case.expected_bps(case.allowed_bps(wanted)),
        ..FindingAdvice::new(
            "initiator",
            format!("Request {} or more, or leave it to autotuning", Bytes(wanted)),
        )
    });
    Some(found)
}
