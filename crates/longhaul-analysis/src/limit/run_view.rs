//! A run with everything that is derived from it once: intervals, arrivals, RTTs, totals, level of
//! the rate, clipped buffers, and a token bucket if there was one.
//!
//! [`super::run_reading`] computes it; all judgements read it.
//!
//! Source: both ends' samples. Units: bit/s, microseconds. Error: that of the samples' spacing.
//! Wrong when: streams take different routes (one idle RTT for all).

use super::policer_fit::{PolicerFit, ShaperFit};
use super::stream_intervals::SampleInterval;
use crate::throughput::arrival_timeline::RunArrivals;
use longhaul_model::report::v1::analysis::{LoadedRtt, RunTotals, SteadySpan};
use longhaul_model::report::v1::observation::ThroughputObservation;
use longhaul_model::report::v1::plan::ThroughputPlan;

/// A standing queue exceeds the idle RTT by this time and this share of it.
const QUEUE_US: f64 = 2000.0;
const QUEUE_RATIO: f64 = 0.1;
/// The minimum ratio of host drops to retransmitted segments for the drops to explain them.
const HOST_DROP_RATIO: f64 = 0.2;

/// A socket buffer that the kernel granted smaller than the user requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClippedBuffer {
    pub requested_bytes: u64,
    pub granted_bytes: u64,
}

/// One direction of a run, with what is derived from it once.
pub struct RunView<'a> {
    pub plan: &'a ThroughputPlan,
    pub observation: &'a ThroughputObservation,
    pub arrivals: RunArrivals,
    /// One list per stream of the observation, in its order.
    pub streams: Vec<Vec<SampleInterval<'a>>>,
    pub steady: Option<SteadySpan>,
    /// The minimum RTT known.
    pub idle_rtt_us: Option<u64>,
    /// RTTs of the judged part.
    pub loaded_rtt: Option<LoadedRtt>,
    pub totals: RunTotals,
    /// Segments that were retransmitted within the intervals.
    pub retransmitted_segments: u64,
    /// The share of the sent segments that were retransmitted.
    pub loss_ratio: Option<f64>,
    /// The largest MSS of a stream.
    pub mss_bytes: Option<u64>,
    /// Packets that the two hosts themselves dropped, by their own counters.
    pub host_drops: u64,
    /// Retransmissions that the kernel deferred because of the send buffer; 0 if too few to matter.
    pub refused_retransmits: u64,
    pub bbr: bool,
    pub receive_clip: Option<ClippedBuffer>,
    pub send_clip: Option<ClippedBuffer>,
    /// The rate that all streams together reached and kept.
    pub level_bps: f64,
    /// Scatter of the interval rates of the steady part, as a share of their median.
    pub scatter_ratio: Option<f64>,
    /// The steady part scatters less than `FLAT_RATIO`.
    pub flat: bool,
    pub bucket: Option<ShaperFit>,
    pub policer: Option<PolicerFit>,
}

impl<'a> RunView<'a> {
    /// Returns true if this RTT includes a queue.
    pub fn is_rtt_inflated(&self, rtt_us: f64) -> bool {
        self.idle_rtt_us.is_some_and(|idle| rtt_us - idle as f64 >= self.queue_threshold_us())
    }

    pub fn queue_threshold_us(&self) -> f64 {
        QUEUE_US.max(QUEUE_RATIO * self.idle_rtt_us.unwrap_or(0) as f64)
    }

    /// Returns the intervals of all streams in the steady part (or in the whole run).
    pub fn judged_intervals(&self) -> impl Iterator<Item = &SampleInterval<'a>> {
        self.streams.iter().flatten().filter(|i| self.is_judged(i))
    }

    pub fn is_judged(&self, interval: &SampleInterval) -> bool {
        !interval.draining && self.steady.is_none_or(|span| interval.to_us > span.from_us)
    }

    /// Returns true if the hosts' own drops explain the retransmissions.
    pub fn is_dropped_by_hosts(&self) -> bool {
        let lost = self.retransmitted_segments as f64;
        let dropped = self.host_drops as f64;
        dropped > 0.0 && dropped >= HOST_DROP_RATIO * lost
    }
}

/// Matches the names that drivers give to counters of received but dropped packets.
pub fn is_drop_counter(name: &str) -> bool {
    const WORDS: [&str; 6] = ["drop", "missed", "no_buffer", "discards", "fifo", "over_errors"];
    WORDS.iter().any(|word| name.contains(word))
}
