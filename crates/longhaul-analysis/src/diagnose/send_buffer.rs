//! Is the sender's socket buffer too small to fill the path?
//!
//! We would see: the sender asleep in write, nothing unsent in its kernel, and less outstanding than
//! both windows allow. Refuted by: unsent bytes. Needs: time blocked in write, `tcpi_notsent_bytes`,
//! `tcpi_unacked`. To do: raise wmem_max (asked buffers) or tcp_wmem (those the kernel sizes).
//!
//! Source: our experiments: the kernel's own `tcpi_sndbuf_limited` showed 1 % where this held all of
//! the time. Units: bytes. Wrong when: the far kernel acknowledges late.

use super::{Advice, Case, advice, bytes, finding, host_name, rate, share_of};
use crate::caveats::clip;
use crate::limit::bounds;
use crate::limit::states::State;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::analysis::Limiter;

pub fn diagnose(case: &Case) -> Option<Finding> {
    if !case.is(Limiter::SendBuffer) {
        return None;
    }
    let host = host_name(&case.sender().host, "the sender");
    let buffer = case
        .scene
        .observation
        .streams
        .iter()
        .find_map(|s| s.sender.send_buffer);
    let held = bounds::outstanding_seen(&case.scene)? / case.streams();
    let grant = buffer.map_or(String::new(), |b| match b.asked_bytes {
        Some(asked) => format!(
            " (asked {}, granted {})",
            bytes(asked),
            bytes(b.granted_bytes)
        ),
        None => format!(" (grown to {} by the kernel)", bytes(b.stored_bytes)),
    });
    let summary = format!(
        "The send buffer of {host}{grant} holds {} in flight; per {} that is {} a stream{}",
        bytes(held),
        case.rtt_text(),
        rate(case.allowed_bps(held)? / case.streams()),
        case.behind(),
    );
    let mut found = finding(case, "send_buffer", summary);
    found.supports.push(share_of(case, State::SendBufferClip));
    found.supports.extend(super::in_flight(case));
    found.supports.push(String::from(
        "the sender slept in write with nothing unsent in its kernel",
    ));
    let wanted = case.better_window(held, buffer.and_then(|b| b.asked_bytes));
    let expected_bps = case.expected_bps(case.allowed_bps(wanted));
    let clipped = buffer.is_some_and(|b| clip(b).is_some());
    let asked = buffer.is_some_and(|b| b.asked_bytes.is_some());
    let (command, text) = match (clipped, asked) {
        (true, _) => (
            format!("sysctl -w net.core.wmem_max={wanted}"),
            format!("Let {host} grant buffers up to {}", bytes(wanted)),
        ),
        (false, true) => (
            case.again(&format!("--send-buffer {wanted}")),
            format!("Ask for {} or more, or for nothing", bytes(wanted)),
        ),
        (false, false) => {
            let [least, usual, _] = case
                .sender()
                .host
                .tcp_wmem_bytes
                .unwrap_or([4096, 16_384, 0]);
            let most = wanted.saturating_mul(2);
            (
                format!("sysctl -w net.ipv4.tcp_wmem=\"{least} {usual} {most}\""),
                format!("Let the send buffer of {host} grow to {}", bytes(most)),
            )
        }
    };
    found.advice.push(Advice {
        command: Some(command),
        expected_bps,
        ..advice("sender", text)
    });
    Some(found)
}
