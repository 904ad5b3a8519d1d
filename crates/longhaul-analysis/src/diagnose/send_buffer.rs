//! Limited by the sender's socket buffer.
//!
//! We would see: the sender asleep in write, nothing unsent in its kernel, and less data in flight
//! than both windows allow. Refuted by: unsent bytes. Needs: time blocked in write,
//! `tcpi_notsent_bytes`, `tcpi_unacked`. To do: raise wmem_max (requested) or tcp_wmem (autotuned).
//!
//! Source: our experiments: the kernel's own `tcpi_sndbuf_limited` showed 1 % when this limited the
//! sender all of the time. Units: bytes. Wrong when: the far kernel acknowledges late.

use super::{Advice, Case, advice, again, bytes, finding, host_name, rate, share_of};
use crate::caveats::send_clip;
use crate::limit::bounds;
use crate::limit::state::State;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::Buffer;

pub fn diagnose(case: &Case) -> Option<Finding> {
    if !case.is(Limiter::SendBuffer) {
        return None;
    }
    let host = host_name(&case.sender().host, "the sender");
    let mut streams = case.scene.observation.streams.iter();
    let buffer = streams.find_map(|s| s.sender.send_buffer);
    let grant = buffer.map_or(String::new(), |b| granted(case, b));
    let bounds = &case.analysis.bounds;
    let bound = bounds.iter().find(|b| b.limiter == Limiter::SendBuffer)?;
    let summary = format!(
        "The send buffer of {host}{grant} is too small: {}, about {}{}",
        bound.why,
        rate(bound.rate_bps),
        case.behind(),
    );
    let mut found = finding(case, "send_buffer", summary);
    found.supports.push(share_of(case, State::SendBufferClip));
    found.supports.extend(super::in_flight(case));
    found.supports.push(String::from(
        "the sender slept in write with nothing unsent in its kernel",
    ));
    let chosen = buffer.is_some_and(|b| b.asked_bytes.is_some());
    found.advice.extend(larger(case, host, chosen));
    Some(found)
}

/// Describes the buffer's size and the source of that size: the user, longhaul or the kernel.
fn granted(case: &Case, buffer: Buffer) -> String {
    let (granted, stored) = (bytes(buffer.granted_bytes), buffer.stored_bytes);
    match (case.scene.plan.send_buffer_bytes, buffer.asked_bytes) {
        (Some(asked), _) => format!(
            " (asked {}, granted {granted}, which Linux stores doubled: {stored} B)",
            bytes(asked)
        ),
        (None, Some(_)) => format!(" ({granted}, longhaul's own choice for this run)"),
        (None, None) => format!(" (grown to {} by the kernel)", bytes(stored)),
    }
}

fn larger(case: &Case, host: &str, chosen: bool) -> Option<Advice> {
    let asked = case.scene.plan.send_buffer_bytes;
    let present = asked.map_or_else(|| bounds::outstanding_usual(&case.scene), Some)?;
    let wanted = case.better_window(present);
    let (command, text, wanted) = match (send_clip(&case.scene), chosen) {
        (Some((asked, _)), _) => {
            let wanted = case.window_to_grant(asked);
            (
                format!("sysctl -w net.core.wmem_max={wanted}"),
                format!("Let {host} grant buffers up to {}", bytes(wanted)),
                wanted,
            )
        }
        (None, true) => (
            again(&format!("--send-buffer {wanted}")),
            format!("Ask for {} or more, or for nothing", bytes(wanted)),
            wanted,
        ),
        (None, false) => {
            let host_now = case.sender().host.tcp_wmem_bytes;
            let [least, usual, _] = host_now.unwrap_or([4096, 16_384, 0]);
            let most = wanted.saturating_mul(2);
            (
                format!("sysctl -w net.ipv4.tcp_wmem=\"{least} {usual} {most}\""),
                format!("Let the send buffer of {host} grow to {}", bytes(most)),
                wanted,
            )
        }
    };
    Some(Advice {
        command: Some(command),
        expected_bps: case.expected_bps(case.allowed_bps(wanted)),
        ..advice("sender", text)
    })
}
