//! Closed forms: upper bounds of the goodput.
//!
//! Window × streams / RTT; the link less headers; the CPU; the loss response of the congestion
//! control, for each stream.
//!
//! Source: Mathis 1997; RFC 9438 section 5.1; Hacker, Athey, Noble 2002. Units: bit/s of payload.
//! Error: the bound of loss is right to about 30 % (fixtures/ns3).
//! Wrong when: losses come in bursts, or the streams cause them.

use crate::limit::limit_bounds::window_bound_bps;
use crate::limit::loss_response::{loss_bound_bps, mathis_bps};
use longhaul_model::report::v1::analysis::{Limiter, RateBound};
use longhaul_model::report::v1::predict::{PredictionPath, PredictionPlan};
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::units::{Bytes, Rate, count_of, format_duration};
use std::time::Duration;

/// The minimum number of losses for a stream to settle at the rate that the loss allows.
const MIN_LOSSES: f64 = 20.0;

/// Returns the window of one stream: granted if requested, the kernel's autotuned maximum
/// otherwise; `None` if it is unbounded.
pub fn window_bytes(plan: &PredictionPlan, setting: &TransferSetting) -> Option<u64> {
    match setting.window_bytes {
        Some(asked) => Some(asked.min(plan.hosts.granted_most_bytes.unwrap_or(u64::MAX))),
        None => plan.hosts.auto_window_bytes,
    }
}

/// Returns the payload rate of the link.
pub fn link_bps(path: &PredictionPath) -> f64 {
    let mss = f64::from(path.mss_bytes);
    path.capacity_bps as f64 * mss / (mss + f64::from(path.header_bytes))
}

/// Returns the bounds in ascending order.
pub fn predict_bounds(
    plan: &PredictionPlan,
    setting: &TransferSetting,
    loss_ratio: f64,
) -> Vec<RateBound> {
    let processor = plan.hosts.processor_bps.map(|rate_bps| RateBound {
        limiter: Limiter::CpuReceiver,
        rate_bps,
        why: String::from("CPU limit of the slower end"),
    });
    let link = RateBound {
        limiter: Limiter::PathCapacity,
        rate_bps: link_bps(&plan.path) as u64,
        why: format!(
            "{} link rate less headers ({} of {} B are payload)",
            Rate::bits_per_second(plan.path.capacity_bps),
            plan.path.mss_bytes,
            plan.path.mss_bytes + plan.path.header_bytes,
        ),
    };
    let mut all = vec![link];
    all.extend(processor);
    all.extend(bound_by_window(plan, setting));
    all.extend(bound_by_loss(plan, setting, loss_ratio));
    all.sort_by(|a, b| a.rate_bps.cmp(&b.rate_bps).then(a.limiter.cmp(&b.limiter)));
    all
}

fn bound_by_window(plan: &PredictionPlan, setting: &TransferSetting) -> Option<RateBound> {
    let window = window_bytes(plan, setting)?;
    let all = window.saturating_mul(setting.streams.into());
    let clipped = match setting.window_bytes {
        Some(asked) if asked > window => format!(" (requested {})", Bytes(asked)),
        Some(_) => String::new(),
        None => String::from(" (autotuned)"),
    };
    Some(RateBound {
        limiter: Limiter::ReceiveWindow,
        rate_bps: window_bound_bps(all, plan.path.rtt_us)?,
        why: format!(
            "{} window{clipped} × {} / {} RTT",
            Bytes(window),
            count_of(u64::from(setting.streams), "stream"),
            format_rtt(plan)
        ),
    })
}

/// Returns the bound of the congestion control at this loss, if the transfer loses often enough to
/// settle there: slow start ends far above, and each loss cuts only a part. BBR does not respond.
fn bound_by_loss(
    plan: &PredictionPlan,
    setting: &TransferSetting,
    loss_ratio: f64,
) -> Option<RateBound> {
    let (mss, rtt_s) = (f64::from(plan.path.mss_bytes), plan.path.rtt_us as f64 / 1e6);
    let one = match setting.congestion_control.as_deref() {
        Some("reno") => mathis_bps(mss, rtt_s, loss_ratio),
        Some("cubic") => loss_bound_bps(mss, rtt_s, loss_ratio),
        _ => None,
    }?;
    let losses = loss_ratio * one / (8.0 * mss) * plan.time_us as f64 / 1e6;
    if losses < MIN_LOSSES {
        return None;
    }
    let what = format!("loss ratio {loss_ratio}, MSS {mss} B, {} RTT", format_rtt(plan));
    Some(RateBound {
        limiter: Limiter::Loss,
        rate_bps: (one * f64::from(setting.streams)) as u64,
        why: format!("{what}, {}", count_of(u64::from(setting.streams), "stream")),
    })
}

fn format_rtt(plan: &PredictionPlan) -> String {
    format_duration(Duration::from_micros(plan.path.rtt_us))
}
