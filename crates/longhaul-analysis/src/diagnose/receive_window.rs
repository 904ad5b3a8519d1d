//! A receive buffer that the kernel granted smaller than requested, which limits the rate.
//!
//! We would see: less granted than requested, the sender limited by the receive window, goodput ×
//! RTT near the granted size. Refuted by: a rate well above granted / RTT, or another limiter.
//! Needs: the buffer read back, `tcpi_rwnd_limited`. To do: raise `net.core.rmem_max` on the
//! receiver, or set no buffer and let the kernel autotune it.
//!
//! Source: socket(7): SO_RCVBUF is cut to rmem_max, then doubled for bookkeeping. Units: bytes.
//! Wrong when: the kernel counts headers of small segments against it; then the rate is lower.
//!
//! # A requested size that is too small
//!
//! A receive buffer that was granted as requested, but requested too small.
//!
//! We would see: a requested receive buffer, granted in full, and the sender limited by the window.
//! Refuted by: a clipped grant (then the kernel is the cause), or no request at all.
//! Needs: `tcpi_rwnd_limited`, the buffer read back. To do: request more, or nothing.
//! Units: bytes. Wrong when: the application reads slowly and its queue was not sampled.
//!
//! # Autotuning that stops too early
//!
//! Limited by the maximum of receive-buffer autotuning.
//!
//! We would see: no requested buffer, the sender limited by the window, and a window near half of
//! tcp_rmem's maximum. Refuted by: a window far below that (then autotuning has not reached it).
//! Needs: `tcpi_rwnd_limited`, `tcpi_snd_wnd`, tcp_rmem. To do: raise tcp_rmem on the receiver, and
//! tcp_wmem on the sender with it.
//!
//! Source: Linux grants about half of the buffer as window (tcp_adv_win_scale 1). Units: bytes.
//! Wrong when: a middlebox rewrites windows.

use super::{
    DiagnosisCase, build_finding, describe_state_share, format_whole_percent, name_of_host, to_rate,
};
use crate::limit::interval_state::IntervalState;
use crate::limit::limit_bounds;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::plan::MAX_STREAMS;
use longhaul_model::units::{Bytes, format_option_size};

/// The maximum relative distance from window / RTT at which the rate confirms the window.
const NEAR_RATIO: f64 = 0.25;

pub fn diagnose_clipped_window(case: &DiagnosisCase) -> Option<ReportFinding> {
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
    found.add_evidence(off.abs() <= NEAR_RATIO, measured);
    add_window_advice(case, host, asked, &mut found);
    Some(found)
}

fn add_window_advice(case: &DiagnosisCase, host: &str, asked: u64, found: &mut ReportFinding) {
    let wanted = case.window_to_grant(asked);
    let most = case
        .receiver()
        .host
        .tcp_rmem_bytes
        .map_or(String::new(), |r| format!(" (tcp_rmem max is {})", Bytes(r[2])));
    let text = format!("On {host}: raise net.core.rmem_max to {}", Bytes(wanted));
    let advice = found.advise("receiver", text);
    advice.command = Some(format!("sysctl -w net.core.rmem_max={wanted}"));
    advice.expected_bps = case.expected_bps(case.allowed_bps(wanted));
    let text = format!("Or request no buffer and let {host} autotune it{most}");
    found.advise("initiator", text);
}

pub fn diagnose_window_size(case: &DiagnosisCase) -> Option<ReportFinding> {
    let asked = case.scene.plan.receive_buffer_bytes?;
    if case.scene.receive_clip.is_some() {
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
    let text = format!("Request {} or more, or leave it to autotuning", Bytes(wanted));
    let advice = found.advise("initiator", text);
    advice.command = Some(case.repeat_command("--receive-buffer", format_option_size(wanted)));
    advice.expected_bps = case.expected_bps(case.allowed_bps(wanted));
    Some(found)
}

/// The ratio of the window to tcp_rmem's maximum from which on autotuning has reached its limit.
const REACHED_RATIO: f64 = 0.4;

pub fn diagnose_autotuning(case: &DiagnosisCase) -> Option<ReportFinding> {
    if case.scene.plan.receive_buffer_bytes.is_some() {
        return None;
    }
    let window = limit_bounds::sum_advertised_windows(&case.scene)? / case.streams();
    let host = name_of_host(&case.receiver().host, "the receiver");
    let most = case.receiver().host.tcp_rmem_bytes.map(|r| r[2]);
    let summary = format!(
        "The receive window of {host} stopped growing at {0}: {0} / {1} RTT = {2} per stream{3}",
        Bytes(window),
        case.rtt_text(),
        to_rate(case.allowed_bps(window)? / case.streams()),
        case.describe_next_limit(),
    );
    let mut found = build_finding(case, "receive_autotuning", summary);
    found.support(describe_state_share(case, IntervalState::WindowClip));
    found.supports.extend(super::describe_in_flight(case));
    if let Some(most) = most {
        let reached = window as f64 >= REACHED_RATIO * most as f64;
        let text = format!("tcp_rmem max is {}, of which about half becomes window", Bytes(most));
        found.add_evidence(reached, text);
    }
    add_autotuning_advice(case, window, most.unwrap_or(window.saturating_mul(2)), &mut found);
    Some(found)
}

fn add_autotuning_advice(case: &DiagnosisCase, window: u64, most: u64, found: &mut ReportFinding) {
    let wanted = case.better_window(window).saturating_mul(2).max(most);
    let [receive, send] = [&case.receiver().host, &case.sender().host];
    let triple = |now: Option<[u64; 3]>, default: [u64; 2]| {
        let [least, usual] = now.map_or(default, |v| [v[0], v[1]]);
        format!("{least} {usual} {wanted}")
    };
    let expected_bps = case.expected_bps(case.allowed_bps(wanted / 2));
    let host = name_of_host(receive, "the receiver");
    let text = format!("On {host}: raise tcp_rmem max to {}", Bytes(wanted));
    let advice = found.advise("receiver", text);
    let rmem = triple(receive.tcp_rmem_bytes, [4096, 131_072]);
    advice.command = Some(format!("sysctl -w net.ipv4.tcp_rmem=\"{rmem}\""));
    advice.expected_bps = expected_bps;
    if send.tcp_wmem_bytes.is_none_or(|w| w[2] < wanted) {
        let host = name_of_host(send, "the sender");
        let advice = found.advise("sender", format!("On {host}: raise tcp_wmem max likewise"));
        let wmem = triple(send.tcp_wmem_bytes, [4096, 16_384]);
        advice.command = Some(format!("sysctl -w net.ipv4.tcp_wmem=\"{wmem}\""));
        advice.expected_bps = expected_bps;
    }
    let streams = (wanted / 2).div_ceil(window.max(1)).clamp(2, 64).saturating_mul(case.streams());
    let streams = streams.min(u64::from(MAX_STREAMS));
    if streams > case.streams() {
        let text = format!("Or use {streams} parallel streams (same total window)");
        found.advise("initiator", text).command = Some(case.repeat_command("-P", streams));
    }
}
