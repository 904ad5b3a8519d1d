//! Round trips, delay variation and loss of one stretch of probes.
//!
//! Round trips per minute: 60 s divided by the mean RTT without the slowest twentieth. The draft
//! takes the same mean over connections, handshakes and requests of HTTP; ours are single datagrams
//! of a separate flow, which wait in the same queue but in no application.
//!
//! Source: draft-ietf-ippm-responsiveness (round trips per minute, trimmed mean); RFC 5481 (delay
//! variation relative to the minimum); Wilson 1927 for the interval of a proportion. Units:
//! nanoseconds; shares; round trips per minute.
//! Error: quantiles to one probe; loss as its interval says, if losses are independent.
//! Wrong when: losses come in bursts, as under tail drop: then the interval is too narrow.

use super::phase_probes::{ClockDrift, list_round_trips};
use crate::stats::proportion;
use crate::stats::quantile::{quantile, sort_finite};
use longhaul_model::report::v1::load::{LoadProbe, ProbeDelays};

/// Share of the round trips that counts for the responsiveness.
const TRIMMED: f64 = 0.95;
const NANOS_PER_MINUTE: f64 = 6e10;

/// Returns the delays of a stretch; `None` if no probe was answered.
pub fn summarize_delays(probes: &[LoadProbe], drift: ClockDrift) -> Option<ProbeDelays> {
    let ascending = sort_finite(list_round_trips(probes));
    let at = |share: f64| quantile(&ascending, share).map(|ns| ns.round() as u64);
    let (sent, lost) = (probes.len(), probes.len() - ascending.len());
    Some(ProbeDelays {
        probes: u32::try_from(sent).unwrap_or(u32::MAX),
        rtt_min_ns: at(0.0)?,
        rtt_median_ns: at(0.5)?,
        rtt_p95_ns: at(0.95)?,
        rtt_max_ns: at(1.0)?,
        loss_ratio: lost as f64 / sent as f64,
        loss_interval_ratio: proportion::proportion_interval(lost as u64, sent as u64),
        forward_variation_ns: compute_variation(drift.forward_ns(probes)),
        reverse_variation_ns: compute_variation(drift.reverse_ns(probes)),
    })
}

fn compute_variation(one_way: Vec<f64>) -> Option<u64> {
    let ascending = sort_finite(one_way);
    let spread = quantile(&ascending, 0.95)? - quantile(&ascending, 0.0)?;
    Some(spread.round() as u64)
}

/// Returns round trips per minute, one after another.
pub fn compute_responsiveness(probes: &[LoadProbe]) -> Option<u32> {
    let ascending = sort_finite(list_round_trips(probes));
    let counted = ((ascending.len() as f64 * TRIMMED).ceil() as usize).max(1);
    let fastest = ascending.get(..counted)?;
    let mean = fastest.iter().sum::<f64>() / counted as f64;
    (mean > 0.0).then(|| (NANOS_PER_MINUTE / mean).round().min(f64::from(u32::MAX)) as u32)
}
