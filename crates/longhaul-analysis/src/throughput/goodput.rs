//! Goodput: payload bytes per second that the receiving application read.
//!
//! Bytes over time in the steady part, by the receiver's own counts; the 95 % interval from the
//! scatter of the interval rates, with allowance for correlation ([`crate::stats::mean_interval`]).
//!
//! Source: RFC 2647 section 3.17 for the term. Units: bit/s. Error: the interval given with it.
//! Wrong when: the steady part has few intervals; then there is no interval.

use super::arrival_timeline::{ArrivalBin, RunArrivals};
use crate::stats::mean_interval::mean_half_width;
use longhaul_model::report::v1::analysis::SteadySpan;
use longhaul_model::report::v1::observation::ThroughputObservation;
use longhaul_model::units::Rate;
use std::time::Duration;

/// Without a steady part, this last share of the run gives the rate it had reached.
const LAST_RATIO: f64 = 0.25;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GoodputEstimate {
    pub bps: Option<u64>,
    pub interval_bps: Option<[u64; 2]>,
}

/// Returns the goodput of the span, or of the last quarter without an interval if there is no span.
pub fn measure_goodput(arrivals: &RunArrivals, steady: Option<SteadySpan>) -> GoodputEstimate {
    let Some(span) = steady else {
        let length = arrivals.to_us() - arrivals.from_us();
        let from = arrivals.to_us() - (length as f64 * LAST_RATIO) as u64;
        let last: Vec<ArrivalBin> =
            arrivals.bins.iter().filter(|b| b.to_us > from).copied().collect();
        return GoodputEstimate { bps: compute_rate(&last), interval_bps: None };
    };
    let bins = arrivals.within(span.from_us, span.to_us);
    let bps = compute_rate(bins);
    let rates: Vec<f64> = bins.iter().map(ArrivalBin::rate_bps).collect();
    let interval_bps = bps.zip(mean_half_width(&rates)).map(|(centre, half)| {
        let half = half.round() as u64;
        [centre.saturating_sub(half), centre.saturating_add(half)]
    });
    GoodputEstimate { bps, interval_bps }
}

fn compute_rate(bins: &[ArrivalBin]) -> Option<u64> {
    let bytes: f64 = bins.iter().map(|b| b.bytes).sum();
    let seconds: f64 = bins.iter().map(ArrivalBin::seconds).sum();
    (seconds > 0.0).then(|| (bytes * 8.0 / seconds).round() as u64)
}

/// Returns all bytes over the whole time, ramp included.
pub fn compute_mean_goodput(observation: &ThroughputObservation) -> Option<u64> {
    let bytes =
        observation.streams.iter().fold(0u64, |sum, s| sum.saturating_add(s.receiver.bytes));
    Rate::over(bytes, Duration::from_micros(observation.elapsed_us)).map(Rate::as_bps)
}
