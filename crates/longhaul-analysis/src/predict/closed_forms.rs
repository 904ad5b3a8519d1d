//! Closed forms: upper bounds of the goodput, and formulas for its mean.
//!
//! Bounds: window × streams / RTT; the link less headers; the CPU; the loss response of the
//! congestion control, for each stream. Formulas: Mathis, PFTK with the maximum window, CUBIC's
//! response, each times the streams (Hacker: while the loss is not their own); Altman's utilisation
//! 1 - 1/(1 + 3 N) of a queue that is short compared with the path.
//!
//! Source: Mathis 1997; Padhye, Firoiu, Towsley, Kurose 1998 equation 32; RFC 9438 section 5.1;
//! Hacker, Athey, Noble 2002; Altman, Barman, Tuffin, Vojnovic 2006. Units: bit/s of payload.
//! Error: the formulas of loss are right to about 30 % (fixtures/ns3).
//! Wrong when: losses come in bursts, or the streams cause them.

use crate::limit::limit_bounds::window_bound_bps;
use crate::limit::loss_response::{cubic_bps, loss_bound_bps, mathis_bps};
use longhaul_model::report::v1::analysis::{Limiter, RateBound};
use longhaul_model::report::v1::predict::PredictionPlan;
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::units::{Bytes, Rate, count_of, format_duration};
use std::time::Duration;

/// The minimum retransmission timeout of Linux, which is added to the RTT (TCP_RTO_MIN).
pub const TIMEOUT_S: f64 = 0.2;
/// The minimum number of losses for a stream to settle at the rate that the loss allows.
const MIN_LOSSES: f64 = 20.0;
/// A queue below this share of the path's own volume is short.
const SHORT_QUEUE_RATIO: f64 = 0.2;

/// Returns the window of one stream: granted if requested, the kernel's autotuned maximum
/// otherwise; `None` if it is unbounded.
pub fn window_bytes(plan: &PredictionPlan, setting: &TransferSetting) -> Option<u64> {
    match setting.window_bytes {
        Some(asked) => Some(asked.min(plan.hosts.granted_most_bytes.unwrap_or(u64::MAX))),
        None => plan.hosts.auto_window_bytes,
    }
}

/// Returns the payload rate of the link.
pub fn link_bps(plan: &PredictionPlan) -> f64 {
    let mss = f64::from(plan.path.mss_bytes);
    plan.path.capacity_bps as f64 * mss / (mss + f64::from(plan.path.header_bytes))
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
        rate_bps: link_bps(plan) as u64,
        why: format!(
            "{} link rate less headers ({} of {} B are payload)",
            Rate::bits_per_second(plan.path.capacity_bps),
            plan.path.mss_bytes,
            plan.path.mss_bytes + plan.path.header_bytes,
        ),
    };
    let mut all: Vec<RateBound> = [
        bound_by_window(plan, setting),
        Some(link),
        processor,
        bound_by_loss(plan, setting, loss_ratio),
    ]
    .into_iter()
    .flatten()
    .collect();
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
        rate_bps: scale_to_streams(one, setting),
        why: format!("{what}, {}", count_of(u64::from(setting.streams), "stream")),
    })
}

/// Returns closed forms of the mean, in a fixed order.
pub fn compute_formulas(
    plan: &PredictionPlan,
    setting: &TransferSetting,
    loss: f64,
    buffer_bytes: u64,
) -> Vec<RateBound> {
    let (mss, rtt_s) = (f64::from(plan.path.mss_bytes), plan.path.rtt_us as f64 / 1e6);
    let form = |name: &str, one: Option<f64>| {
        one.map(|one| RateBound {
            limiter: Limiter::Loss,
            rate_bps: scale_to_streams(one, setting),
            why: format!("{name}, {}", count_of(u64::from(setting.streams), "stream")),
        })
    };
    let (reno, cubic) = match setting.congestion_control.as_deref() {
        Some("reno") => (true, false),
        Some("cubic") => (false, true),
        _ => return Vec::new(),
    };
    let window = window_bytes(plan, setting).map(|bytes| bytes as f64 / mss);
    let altman = RateBound {
        limiter: Limiter::PathCapacity,
        rate_bps: (link_bps(plan) * altman_share(setting.streams)) as u64,
        why: format!("Altman 1 - 1/(1 + 3 N), {}", count_of(u64::from(setting.streams), "stream")),
    };
    let pipe_bytes = plan.path.capacity_bps as f64 * rtt_s / 8.0;
    let short = (buffer_bytes as f64) < SHORT_QUEUE_RATIO * pipe_bytes;
    let pftk = pftk_segments_per_s(rtt_s, loss, window).map(|n| 8.0 * mss * n);
    [
        form("Mathis", mathis_bps(mss, rtt_s, loss)),
        form("PFTK", pftk.filter(|_| reno)),
        form("CUBIC", cubic_bps(mss, rtt_s, loss).filter(|_| cubic)),
        (reno && short).then_some(altman),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the share of the link that N Reno streams use without a queue or simultaneous losses.
pub fn altman_share(streams: u32) -> f64 {
    1.0 - 1.0 / (1.0 + 3.0 * f64::from(streams))
}

/// Returns PFTK's long form with the maximum window, for one acknowledgement per segment.
pub fn pftk_segments_per_s(rtt_s: f64, loss: f64, window: Option<f64>) -> Option<f64> {
    if !(rtt_s > 0.0 && loss > 0.0 && loss < 1.0) {
        return None;
    }
    let passed = 1.0 - loss;
    let free = 1.0 + (8.0 * passed / (3.0 * loss) + 1.0).sqrt();
    let timeouts = 1.0 + (0..6).map(|k| 2f64.powi(k) * loss.powi(k + 1)).sum::<f64>();
    let first = rtt_s + TIMEOUT_S;
    let (window, rounds) = match window.map(|w| w.max(1.0)) {
        Some(most) if most < free => (most, most / 8.0 + passed / (loss * most) + 2.0),
        _ => (free, free / 2.0 + 1.0),
    };
    let out = timeout_share(loss, window);
    let sent = passed / loss + window + out / passed;
    Some(sent / (rtt_s * rounds + out * first * timeouts / passed))
}

/// Returns the share of the losses that end in a timeout (PFTK, equation 24).
fn timeout_share(loss: f64, window: f64) -> f64 {
    let passed = 1.0 - loss;
    let three = 1.0 - passed.powi(3);
    let rest = 1.0 + passed.powi(3) * (1.0 - passed.powf(window - 3.0));
    (three * rest / (1.0 - passed.powf(window))).clamp(0.0, 1.0)
}

fn scale_to_streams(one_bps: f64, setting: &TransferSetting) -> u64 {
    (one_bps * f64::from(setting.streams)) as u64
}

fn format_rtt(plan: &PredictionPlan) -> String {
    format_duration(Duration::from_micros(plan.path.rtt_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pftk_meets_mathis_where_loss_is_rare_and_the_window_where_it_is_small() {
        let rtt = 0.04;
        let free = pftk_segments_per_s(rtt, 1e-6, None).unwrap();
        let mathis = mathis_bps(1.0, rtt, 1e-6).unwrap() / 8.0;
        assert!((free / mathis - 1.0).abs() < 0.02, "{free} {mathis}");
        let held = pftk_segments_per_s(rtt, 1e-6, Some(50.0)).unwrap();
        assert!((held / (50.0 / rtt) - 1.0).abs() < 0.01, "{held}");
        // At heavy loss all losses end in timeouts.
        let heavy = pftk_segments_per_s(rtt, 0.3, None).unwrap();
        assert!(heavy < 0.4 * mathis_bps(1.0, rtt, 0.3).unwrap() / 8.0, "{heavy}");
        for hostile in [(0.0, 0.1), (1.0, 0.0), (1.0, 1.0), (f64::NAN, 0.1), (1.0, f64::NAN)] {
            assert_eq!(pftk_segments_per_s(hostile.0, hostile.1, None), None);
        }
    }

    #[test]
    fn altman_gives_three_streams_nine_tenths() {
        for (streams, share) in [(1, 0.75), (3, 0.9), (6, 0.947)] {
            assert!((altman_share(streams) - share).abs() < 0.001);
        }
    }
}
