//! A receive buffer that the kernel granted smaller than requested, which limits the rate.
//!
//! We would see: less granted than requested, the sender limited by the receive window, goodput ×
//! RTT near the granted size. Refuted by: a rate well above granted / RTT, or another limiter.
//! Needs: the buffer read back, `tcpi_rwnd_limited`. To do: raise `net.core.rmem_max` on the
//! receiver, or set no buffer and let the kernel autotune it.
//!
//! Source: socket(7): SO_RCVBUF is cut to rmem_max, then doubled for bookkeeping. Units: bytes.
//! Wrong when: the kernel counts headers of small segments against it; then the rate is lower.

use super::{
    DiagnosisCase, FindingAdvice, build_finding, describe_state_share, format_whole_percent,
    name_of_host, to_rate,
};
use crate::limit::interval_state::IntervalState;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::units::Bytes;

/// The maximum relative distance from window / RTT at which the rate confirms the window.
const NEAR_RATIO: f64 = 0.25;

pub fn diagnose_clipped_window(case: &DiagnosisCase) -> Option<ReportFinding> {
    if !case.is_limited_by(Limiter::ReceiveWindow) {
        return None;
    }
    let clip = case.scene.receive_clip?;
    let (asked, granted) = (clip.requested_bytes, clip.granted_bytes);
    let host = name_of_host(&case.receiver().host, "the receiver");
    let allowed = case.allowed_bps(granted)?;
    let summary = format!(
        "Receive buffer on {host}: requested {}, got {} (net.core.rmem_max; SO_RCVBUF reads {} B); at {} RTT that is {}{}",
        Bytes(asked),
        Bytes(granted),
        granted.saturating_mul(2),
        case.rtt_text(),
        to_rate(allowed),
        case.describe_next_limit(),
    );
    let mut found = build_finding(case, "receive_window", summary);
    found.support(describe_state_share(case, IntervalState::WindowClip));
    let off = case.goodput_bps() as f64 / allowed.max(1) as f64 - 1.0;
    let measured = format!(
        "goodput {} differs by {} from granted buffer / RTT",
        case.goodput(),
        format_whole_percent(off.abs())
    );
    if off.abs() <= NEAR_RATIO {
        found.support(measured);
    } else {
        found.contradict(measured);
    }
    found.advice = list_window_advice(case, host, asked);
    Some(found)
}

fn list_window_advice(case: &DiagnosisCase, host: &str, asked: u64) -> Vec<FindingAdvice> {
    let wanted = case.window_to_grant(asked);
    let most = case
        .receiver()
        .host
        .tcp_rmem_bytes
        .map_or(String::new(), |r| format!(" (tcp_rmem max is {})", Bytes(r[2])));
    vec![
        FindingAdvice {
            command: Some(format!("sysctl -w net.core.rmem_max={wanted}")),
            expected_bps: case.expected_bps(case.allowed_bps(wanted)),
            ..FindingAdvice::new(
                "receiver",
                format!("On {host}: raise net.core.rmem_max to {}", Bytes(wanted)),
            )
        },
        FindingAdvice::new(
            "initiator",
            format!("Or request no buffer and let {host} autotune it{most}"),
        ),
    ]
}
