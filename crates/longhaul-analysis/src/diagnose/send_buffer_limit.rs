//! Limited by the sender's socket buffer.
//!
//! We would see: the sender asleep in write, nothing unsent in its kernel, and less data in flight
//! than both windows allow. Refuted by: unsent bytes. Needs: time blocked in write,
//! `tcpi_notsent_bytes`, `tcpi_unacked`. To do: raise wmem_max (requested) or tcp_wmem (autotuned).
//!
//! Source: our experiments: the kernel's own `tcpi_sndbuf_limited` showed 1 % when this limited the
//! sender all of the time. Units: bytes. Wrong when: the far kernel acknowledges late.

use super::{
    DiagnosisCase, build_finding, describe_state_share, name_of_host, repeat_command, to_rate,
};
use crate::limit::interval_state::IntervalState;
use crate::limit::limit_bounds;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::SocketBuffer;
use longhaul_model::units::Bytes;

pub fn diagnose_send_buffer(case: &DiagnosisCase) -> Option<ReportFinding> {
    let host = name_of_host(&case.sender().host, "the sender");
    let mut streams = case.scene.observation.streams.iter();
    let buffer = streams.find_map(|s| s.sender.send_buffer);
    let grant = buffer.map_or(String::new(), |b| describe_granted_buffer(case, b));
    let bounds = &case.analysis.bounds;
    let bound = bounds.iter().find(|b| b.limiter == Limiter::SendBuffer)?;
    let summary = format!(
        "The send buffer of {host}{grant} is too small: {}, {}{}",
        bound.why,
        to_rate(bound.rate_bps),
        case.describe_next_limit(),
    );
    let mut found = build_finding(case, "send_buffer", summary);
    found.support(describe_state_share(case, IntervalState::SendBufferClip));
    found.supports.extend(super::describe_in_flight(case));
    found.support("the sender blocked in write with no unsent data in the kernel");
    let chosen = buffer.is_some_and(|b| b.asked_bytes.is_some());
    add_buffer_advice(case, host, chosen, &mut found);
    Some(found)
}

/// Describes the buffer's size and the source of that size: the user, longhaul or the kernel.
fn describe_granted_buffer(case: &DiagnosisCase, buffer: SocketBuffer) -> String {
    let (granted, stored) = (Bytes(buffer.granted_bytes), buffer.stored_bytes);
    match (case.scene.plan.send_buffer_bytes, buffer.asked_bytes) {
        (Some(asked), _) => {
            format!(" (requested {}, got {granted}; SO_SNDBUF reads {stored} B)", Bytes(asked))
        }
        (None, Some(_)) => format!(" ({granted}, chosen by longhaul)"),
        (None, None) => format!(" (autotuned to {})", Bytes(stored)),
    }
}

fn add_buffer_advice(case: &DiagnosisCase, host: &str, chosen: bool, found: &mut ReportFinding) {
    let asked = case.scene.plan.send_buffer_bytes;
    let Some(present) = asked.or_else(|| limit_bounds::sum_median_outstanding(&case.scene)) else {
        return;
    };
    let clip = case.scene.send_clip;
    let wanted = clip.map_or_else(
        || case.better_window(present),
        |clip| case.window_to_grant(clip.requested_bytes),
    );
    let (command, text) = if clip.is_some() {
        (
            format!("sysctl -w net.core.wmem_max={wanted}"),
            format!("On {host}: raise net.core.wmem_max to {}", Bytes(wanted)),
        )
    } else if chosen {
        (
            repeat_command(&format!("--send-buffer {wanted}")),
            format!("Request {} or more, or leave it to autotuning", Bytes(wanted)),
        )
    } else {
        let host_now = case.sender().host.tcp_wmem_bytes;
        let [least, usual, _] = host_now.unwrap_or([4096, 16_384, 0]);
        let most = wanted.saturating_mul(2);
        (
            format!("sysctl -w net.ipv4.tcp_wmem=\"{least} {usual} {most}\""),
            format!("On {host}: raise tcp_wmem max to {}", Bytes(most)),
        )
    };
    let advice = found.advise("sender", text);
    advice.command = Some(command);
    advice.expected_bps = case.expected_bps(case.allowed_bps(wanted));
}
