//! The maximum capacity that these hosts can resolve.
//!
//! A burst must be long compared with the receiver's batches and stamps, and its size is limited.
//!
//! Source: docs/methods/available-bandwidth.md. Units: seconds, bit/s of IP. Error: that of the
//! observed batching. Wrong when: the batching changes with the load.

use longhaul_model::report::v1::available::{AvailableMode, AvailablePlan};

/// The maximum number of packets in a train.
pub const MAX_TRAIN_PACKETS: u32 = 2500;
/// The minimum length of a train in times between batches.
pub const TRAIN_BATCHES: f64 = 20.0;
/// The parameters of the resolution of rates.
struct TimingResolutionTuning;

impl TimingResolutionTuning {
    /// The minimum length in time: timestamps have errors of some microseconds.
    const MIN_SPAN_S: f64 = 400e-6;
    const LIGHT_BATCHES: f64 = 8.0;
    const LIGHT_SPAN_S: f64 = 100e-6;
    /// A burst may use this fraction of the byte budget.
    const BURST_PART: u64 = 12;
}

/// Returns the minimum duration of a burst that stands out from the noise.
pub fn min_burst_span_s(batching_s: f64) -> f64 {
    (TRAIN_BATCHES * batching_s).max(TimingResolutionTuning::MIN_SPAN_S)
}

/// Light mode has no bytes for more packets; its intervals are wider.
pub const LIGHT_PACKETS: u32 = 10;

/// Returns the capacity at which the longest burst is just long enough.
pub fn max_resolvable_bps(batching_s: f64, plan: &AvailablePlan) -> f64 {
    let (packets, span_s) = if plan.mode == AvailableMode::Light {
        let span_s = (TimingResolutionTuning::LIGHT_BATCHES * batching_s)
            .max(TimingResolutionTuning::LIGHT_SPAN_S);
        (u64::from(LIGHT_PACKETS), span_s)
    } else {
        let affordable = plan.most_bytes
            / TimingResolutionTuning::BURST_PART
            / u64::from(plan.packet_bytes.max(1));
        (u64::from(MAX_TRAIN_PACKETS).min(affordable), min_burst_span_s(batching_s))
    };
    packets as f64 * f64::from(plan.packet_bytes) * 8.0 / span_s
}
