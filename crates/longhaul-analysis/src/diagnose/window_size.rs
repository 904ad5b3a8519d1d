//! A receive buffer that was granted as requested, but requested too small.
//!
//! We would see: a requested receive buffer, granted in full, and the sender limited by the window.
//! Refuted by: a clipped grant (then the kernel is the cause), or no request at all.
//! Needs: `tcpi_rwnd_limited`, the buffer read back. To do: request more, or nothing.
//! Units: bytes. Wrong when: the application reads slowly and its queue was not sampled.

use super::{Advice, Case, advice, again, bytes, finding, rate, share_of};
use crate::caveats::receive_clip;
use crate::limit::bounds;
use crate::limit::state::State;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::analysis::Limiter;

pub fn diagnose(case: &Case) -> Option<Finding> {
    let asked = case.scene.plan.receive_buffer_bytes?;
    if !case.is(Limiter::ReceiveWindow) || receive_clip(&case.scene).is_some() {
        return None;
    }
    let window = bounds::windows_seen(&case.scene).unwrap_or(asked) / case.streams();
    let summary = format!(
        "The receive buffer that was asked for ({}) gives a window of {}; per {} that is {} a stream{}",
        bytes(asked),
        bytes(window),
        case.rtt_text(),
        rate(case.allowed_bps(window)? / case.streams()),
        case.behind(),
    );
    let mut found = finding(case, "receive_window", summary);
    found.supports.push(share_of(case, State::WindowClip));
    found.supports.extend(super::in_flight(case));
    let wanted = case.better_window(asked);
    found.advice.push(Advice {
        command: Some(again(&format!("--receive-buffer {wanted}"))),
        expected_bps: case.expected_bps(case.allowed_bps(wanted)),
        ..advice(
            "initiator",
            format!("Ask for {} or more, or for nothing", bytes(wanted)),
        )
    });
    Some(found)
}
