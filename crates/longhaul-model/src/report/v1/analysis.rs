//! Conclusions from an observation, with the version of the analysis, so that an old observation
//! can be analysed again.

use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::fmt;

/// Conclusions about one direction of a run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputAnalysis {
    pub version: u32,
    /// Payload rate at the receiver over the steady part; the number to quote.
    pub goodput_bps: Option<u64>,
    /// 95 % confidence interval of the steady goodput (low, high); absent with too little data.
    pub goodput_interval_bps: Option<[u64; 2]>,
    /// Payload rate at the receiver over the whole run.
    pub mean_goodput_bps: Option<u64>,
    /// The steady part; absent if the run never left its ramp.
    pub steady: Option<SteadySpan>,
    /// Time from the first byte to the steady part.
    pub ramp_us: Option<u64>,
    /// RTT under load, over the steady part, streams weighted by bytes.
    pub rtt_us: Option<LoadedRtt>,
    pub limited_by: Limiter,
    /// Share of the byte-weighted time that supports `limited_by`.
    pub confidence_ratio: f64,
    /// Byte-weighted share of time in each state; the sum is 1.
    pub shares: Vec<LimiterShare>,
    /// Upper bounds of the goodput, one for each limit that can be computed, lowest first.
    pub bounds: Vec<RateBound>,
    /// The limit that would apply next if the present one were removed.
    pub next_limit: Option<RateBound>,
    pub totals: RunTotals,
    pub streams: Vec<StreamTotals>,
    pub reverse: Option<Box<ThroughputAnalysis>>,
}

/// The factor that limited a transfer.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    ReceiveWindow,
    SendBuffer,
    Application,
    CpuSender,
    CpuReceiver,
    Loss,
    PathCapacity,
    Shaper,
    Policer,
    Pacing,
    Ramp,
    #[default]
    Unknown,
}

impl Limiter {
    pub const ALL: [Limiter; 12] = [
        Limiter::ReceiveWindow,
        Limiter::SendBuffer,
        Limiter::Application,
        Limiter::CpuSender,
        Limiter::CpuReceiver,
        Limiter::Loss,
        Limiter::PathCapacity,
        Limiter::Shaper,
        Limiter::Policer,
        Limiter::Pacing,
        Limiter::Ramp,
        Limiter::Unknown,
    ];

    /// Returns true for the windows of either host.
    pub const fn is_window(self) -> bool {
        matches!(self, Limiter::ReceiveWindow | Limiter::SendBuffer)
    }

    /// Returns the word used in JSON and in text.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteadySpan {
    pub from_us: u64,
    pub to_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedRtt {
    pub min: u64,
    pub mean: u64,
    pub max: u64,
    pub stddev: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimiterShare {
    /// A state of the attribution, finer than a limiter (`receiver_slow`, `slow_start`, …).
    pub state: String,
    pub limiter: Limiter,
    pub share_ratio: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateBound {
    pub limiter: Limiter,
    pub rate_bps: u64,
    /// The calculation, with the numbers.
    pub why: String,
}

/// Sums over the streams, and the byte counts of both ends.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunTotals {
    pub sender_bytes: u64,
    pub receiver_bytes: u64,
    /// Bytes that the sender's kernel accepted and the receiver had not read when counting ended.
    pub undelivered_bytes: u64,
    pub data_segments_sent: Option<u64>,
    pub retransmitted_segments: Option<u64>,
    pub mean_segment_bytes: Option<u64>,
    /// Packets of every kind, acknowledgements included.
    pub packets_sent: Option<u64>,
    pub packets_received: Option<u64>,
    pub stream_errors: u64,
    /// CPU microseconds per 10^9 payload bytes.
    pub sender_cpu_us_per_gb: Option<u64>,
    pub receiver_cpu_us_per_gb: Option<u64>,
    /// Cycles per payload byte, in thousandths.
    pub sender_millicycles_per_byte: Option<u64>,
    pub receiver_millicycles_per_byte: Option<u64>,
    /// UDP only: datagrams lost over datagrams sent.
    pub loss_ratio: Option<f64>,
    pub jitter_us: Option<u64>,
}

/// One row of the per-stream table.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StreamTotals {
    pub index: u32,
    pub bytes: u64,
    pub duration_us: u64,
    pub goodput_bps: Option<u64>,
    /// Writes per second at the sender, in thousandths.
    pub writes_per_1000s: Option<u64>,
    pub retransmitted_segments: Option<u64>,
    pub rtt_min_us: Option<u64>,
    pub cwnd_max_bytes: Option<u64>,
}
