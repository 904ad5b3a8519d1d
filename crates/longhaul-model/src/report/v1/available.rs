//! Capacity and available bandwidth with their intervals, from short trains of datagrams.
//!
//! All rates count IP packets, including the headers of layer 3 and above.

use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The requested measurement.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AvailablePlan {
    pub mode: AvailableMode,
    pub forward: bool,
    pub reverse: bool,
    /// Size of a full probe packet, IP header included.
    pub packet_bytes: u32,
    /// Maximum IP bytes of probes in each direction; never exceeded.
    pub most_bytes: u64,
    /// Maximum time from the first probe to the last, in each direction.
    pub most_time_us: u64,
    /// Seed of all random processes of the probes.
    pub seed: u64,
    pub dscp: Option<u8>,
    /// The method for a peer that does not run longhaul; absent: the peer cooperates.
    pub uncooperative: Option<FallbackMethod>,
    /// Also search for a large token bucket, for at most this long at full rate.
    pub shaper_time_us: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AvailableMode {
    Light,
    Quick,
    Careful,
}

impl AvailableMode {
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// A probing method for a peer that does not cooperate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackMethod {
    /// A TCP service that accepts bulk data.
    TcpBulk,
    /// TCP to an iperf3 server, paced at different rates.
    PacedTcp,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AvailableObservation {
    pub idle_rtt_us: Option<u64>,
    /// Both ends are the same host, without a link between them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    pub forward: Option<DirectionProbing>,
    pub reverse: Option<DirectionProbing>,
}

/// The probes of one direction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DirectionProbing {
    /// IP bytes of all probes sent.
    pub probe_bytes: u64,
    /// Time from the first probe to the last.
    pub duration_us: u64,
    /// Speed of the sender's interface, if the kernel reports it.
    pub interface_bps: Option<u64>,
    /// Source of the receive timestamps: `hardware`, `kernel`, `user`.
    pub receive_clock: String,
    pub trains: Vec<ProbeTrain>,
    /// Datagrams that the receiver's kernel dropped because its buffer was full.
    pub overflowed: Option<u64>,
    /// Rates measured by TCP, if the peer does not cooperate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp_samples: Vec<TcpSample>,
    /// The steps of paced TCP, with an iperf3 server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paced_steps: Vec<PacedStep>,
}

/// One rate of TCP, paced by the sender's kernel; the figures are of its second half.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacedStep {
    /// Requested rate of all streams together; absent: unlimited.
    pub rate_bps: Option<u64>,
    /// Start since the first step.
    pub at_us: u64,
    pub duration_us: u64,
    /// Payload of the whole step.
    pub sent_bytes: u64,
    /// Acknowledged IP rate.
    pub delivered_bps: u64,
    /// From the sender's TCP_INFO.
    pub rtt_min_us: Option<u64>,
    pub rtt_median_us: Option<u64>,
    pub retransmits: u64,
    pub segments: u64,
}

/// A requested train.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainPlan {
    pub index: u32,
    pub purpose: TrainPurpose,
    pub packets: u32,
    /// Size of each packet, IP header included.
    pub packet_bytes: u32,
    pub schedule: TrainSchedule,
    /// Silence before the train.
    pub pause_us: u64,
}

/// The departure times of a train's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainSchedule {
    BackToBack,
    /// Evenly spaced, at this IP rate.
    RateBps(u64),
    /// At random times with exponential gaps, drawn from the seed.
    Poisson {
        mean_gap_ns: u64,
        seed: u64,
    },
}

/// A train of datagrams.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeTrain {
    pub index: u32,
    pub purpose: TrainPurpose,
    /// Size of each packet, IP header included.
    pub packet_bytes: u32,
    /// Requested rate; absent: as fast as the sender can, or at random times.
    pub rate_bps: Option<u64>,
    /// Packets sent in one call; only the last packet of each call has an exact send time.
    pub micro_burst_packets: u32,
    /// Origin of `sent_ns`: time since the start of the measurement, on the sender's clock.
    pub sent_at_ns: u64,
    pub sent_ns: Vec<u64>,
    /// Origin of `received_ns`: time since an arbitrary moment, on the receiver's clock; the same
    /// moment for all trains of the run.
    pub received_at_ns: u64,
    /// One entry per packet; absent: lost.
    pub received_ns: Vec<Option<u64>>,
    /// The change of the receiver's wall clock against its monotonic clock during the train.
    pub clock_step_ns: Option<i64>,
    /// The reason why the train cannot be used.
    pub spoilt: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainPurpose {
    /// Back to back, to measure capacity.
    Burst,
    /// Small packets at random times, to measure how often the queue is empty.
    Idle,
    /// At a fixed rate, to find the rate at which delay starts to grow.
    Sweep,
    /// Long and at full rate, to find a large token bucket.
    Bucket,
}

/// A reading of TCP_INFO, for a peer that does not cooperate.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSample {
    pub at_us: u64,
    pub bytes: u64,
    pub rtt_us: Option<u64>,
    pub delivery_bps: Option<u64>,
    #[serde(default)]
    pub application_limited: bool,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AvailableAnalysis {
    pub version: u32,
    pub forward: Option<AvailableEstimate>,
    pub reverse: Option<AvailableEstimate>,
}

/// The estimate for one direction. A value that cannot be determined is absent, and `verdict` gives
/// the reason.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AvailableEstimate {
    pub verdict: EstimateVerdict,
    pub capacity_bps: Option<u64>,
    pub capacity_interval_bps: Option<[u64; 2]>,
    pub available_bps: Option<u64>,
    pub available_interval_bps: Option<[u64; 2]>,
    /// Variation of the available bandwidth at the time scale of a train.
    pub available_spread_bps: Option<u64>,
    /// The estimate and weight of each method.
    pub methods: Vec<MethodEstimate>,
    /// Time between the batches in which the receiver gets its packets; absent: no batching seen.
    pub batching_ns: Option<u64>,
    /// The highest capacity that these hosts can measure, given the observed time resolution.
    pub resolution_bps: Option<u64>,
    pub probe_bytes: u64,
    pub duration_us: u64,
    pub loss_ratio: f64,
    /// `multi_hop`, `unstable`, `fair_queue`, `policed`, `bursty`, `time_slotted`, `sender_limited`, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    pub bucket: Option<TokenBucketEstimate>,
    /// IP bytes of the longest train, if no token bucket was found: one that outlasts it is not seen,
    /// and the estimate then holds for trains up to this length.
    pub longest_train_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimateVerdict {
    /// Capacity and available bandwidth are estimated.
    Estimated,
    /// Only the capacity is estimated.
    CapacityOnly,
    /// The path is at least as fast as the sender: the capacity is a lower bound.
    SenderLimited,
    /// The path is too fast for the clocks or the sender of these hosts.
    BeyondResolution,
    /// Too many trains were lost or unusable.
    Disturbed,
    /// Nothing arrived.
    #[default]
    NoAnswer,
}

impl EstimateVerdict {
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// The estimate of one method for the available bandwidth.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodEstimate {
    /// `empty_queue`, `rate_sweep`, `tcp_share`, `echo`.
    pub name: String,
    pub available_bps: Option<u64>,
    pub interval_bps: Option<[u64; 2]>,
    /// Weight in the fused estimate.
    pub weight_ratio: f64,
    /// The reason why the method is not used.
    pub invalid: Option<String>,
}

/// A token bucket on the path: `burst_bytes` pass at the peak rate, the rest at the sustained rate.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenBucketEstimate {
    pub kind: TokenBucketKind,
    pub peak_bps: u64,
    pub sustained_bps: u64,
    pub sustained_interval_bps: Option<[u64; 2]>,
    /// IP bytes.
    pub burst_bytes: u64,
    pub burst_interval_bytes: Option<[u64; 2]>,
    pub confidence_ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenBucketKind {
    /// The excess is queued.
    Shaper,
    /// The excess is dropped.
    Policer,
}
