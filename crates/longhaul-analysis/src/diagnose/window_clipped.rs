//! A receive buffer that the kernel granted smaller than requested, which limits the rate.
//!
//! We would see: less granted than requested, the sender limited by the receive window, goodput ×
//! RTT near the granted size. Refuted by: a rate well above granted / RTT, or another limiter.
//! Needs: the buffer read back, `tcpi_rwnd_limited`. To do: raise `net.core.rmem_max` on the
//! receiver, or set no buffer and let the kernel autotune it.
//!
//! Source: socket(7): SO_RCVBUF is cut to rmem_max, then doubled for bookkeeping. Units: bytes.
//! Wrong when: the kernel counts headers of small segments against it; then the rate is lower.

use super::{Advice, Case, advice, bytes, finding, host_name, percent, rate, share_of};
use crate::caveats::receive_clip;
use crate::limit::state::State;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::analysis::Limiter;

/// The maximum relative distance from window / RTT at which the rate confirms the window.
const NEAR_RATIO: f64 = 0.25;

pub fn diagnose(case: &Case) -> Option<Finding> {
    if !case.is(Limiter::ReceiveWindow) {
        return None;
    }
    let (asked, granted) = receive_clip(&case.scene)?;
    let host = host_name(&case.receiver().host, "the receiver");
    let allowed = case.allowed_bps(granted)?;
    let summary = format!(
        "Asked for a receive buffer of {}, {host} granted {}: its net.core.rmem_max allows no more (Linux stores twice what it grants: {} B); per {} that is {}{}",
        bytes(asked),
        bytes(granted),
        granted.saturating_mul(2),
        case.rtt_text(),
        rate(allowed),
        case.behind(),
    );
    let mut found = finding(case, "receive_window", summary);
    found.supports.push(share_of(case, State::WindowClip));
    let off = case.goodput_bps() as f64 / allowed.max(1) as f64 - 1.0;
    let measured = format!(
        "goodput {} is {} from granted buffer / RTT",
        case.goodput(),
        percent(off.abs())
    );
    if off.abs() <= NEAR_RATIO {
        found.supports.push(measured);
    } else {
        found.contradicts.push(measured);
    }
    found.advice = advices(case, host, asked);
    Some(found)
}

fn advices(case: &Case, host: &str, asked: u64) -> Vec<Advice> {
    let wanted = case.window_to_grant(asked);
    let most = case
        .receiver()
        .host
        .tcp_rmem_bytes
        .map_or(String::new(), |r| {
            format!(" (it may then grow to tcp_rmem's {})", bytes(r[2]))
        });
    vec![
        Advice {
            command: Some(format!("sysctl -w net.core.rmem_max={wanted}")),
            expected_bps: case.expected_bps(case.allowed_bps(wanted)),
            ..advice(
                "receiver",
                format!("Let {host} grant buffers up to {}", bytes(wanted)),
            )
        },
        advice(
            "initiator",
            format!("Or set no buffer, and {host} sizes it by itself{most}"),
        ),
    ]
}
