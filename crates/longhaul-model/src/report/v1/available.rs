//! Capacity and available bandwidth, each with its interval, from short trains of datagrams.
//!
//! All rates count IP packets, headers of layer 3 and above included.

use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub mode: Mode,
    pub forward: bool,
    pub reverse: bool,
    /// Of a full probe packet, IP header included.
    pub packet_bytes: u32,
    /// Most IP bytes of probes in each direction; never exceeded.
    pub most_bytes: u64,
    /// Most time from the first probe to the last, each direction.
    pub most_time_us: u64,
    /// Of all random processes of the probes.
    pub seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// By TCP alone, with a far end that is no longhaul; port of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncooperative: Option<Fallback>,
    /// A large token bucket is looked for too: at most this long at full rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper_time_us: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Light,
    Quick,
    Careful,
}

impl Mode {
    pub const fn word(self) -> &'static str {
        match self {
            Mode::Light => "light",
            Mode::Quick => "quick",
            Mode::Careful => "careful",
        }
    }
}

/// What a far end that does not cooperate answers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// A TCP service that takes bulk data.
    TcpBulk,
    /// SYNs to a closed or open TCP port, answered by small packets.
    TcpReset,
    /// Echoes of ICMP.
    IcmpEcho,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_rtt_us: Option<u64>,
    /// Both ends are one host, and no link lies between them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Probing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Probing>,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Probing {
    /// IP bytes of all probes sent.
    pub probe_bytes: u64,
    /// From the first probe to the last.
    pub duration_us: u64,
    /// Speed of the sender's interface, where the kernel says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_bps: Option<u64>,
    /// What took receive times: `hardware`, `kernel`, `user`.
    pub receive_clock: String,
    pub trains: Vec<Train>,
    /// Datagrams that the receiver's kernel dropped for want of buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflowed: Option<u64>,
    /// Rates seen by TCP, where the far end does not cooperate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp_samples: Vec<TcpSample>,
}

/// A train that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainPlan {
    pub index: u32,
    pub purpose: Purpose,
    pub packets: u32,
    /// Of each packet, IP header included.
    pub packet_bytes: u32,
    pub schedule: Schedule,
    /// Nothing is sent for this long before it.
    pub pause_us: u64,
}

/// When the packets of a train leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    BackToBack,
    /// Evenly, at this IP rate.
    RateBps(u64),
    /// At random times (exponential gaps), drawn from the seed.
    Poisson {
        mean_gap_ns: u64,
        seed: u64,
    },
}

/// Datagrams that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Train {
    pub index: u32,
    pub purpose: Purpose,
    /// Of each packet, IP header included.
    pub packet_bytes: u32,
    /// Asked rate; absent: as fast as the sender can, or at random times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Packets that left in one call; only the last of each has a sound send time.
    pub micro_burst_packets: u32,
    /// Zero of `sent_ns`, from the begin of the measurement on the sender's clock.
    pub sent_at_ns: u64,
    pub sent_ns: Vec<u64>,
    /// Zero of `received_ns`, from an arbitrary time on the receiver's clock that is the same for
    /// all trains of the run.
    pub received_at_ns: u64,
    /// By packet; absent: lost.
    pub received_ns: Vec<Option<u64>>,
    /// By how much the receiver's wall clock moved against its monotonic one meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_step_ns: Option<i64>,
    /// Why nothing can be read from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spoilt: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Back to back: capacity.
    Burst,
    /// Small packets at random times: how often the queue is empty.
    Idle,
    /// At a set rate: where delay begins to grow.
    Sweep,
    /// Long, at full rate: a large token bucket.
    Bucket,
}

/// What a TCP connection said of itself, without a cooperating far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSample {
    pub at_us: u64,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_bps: Option<u64>,
    #[serde(default)]
    pub application_limited: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Estimate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Estimate>,
}

/// One direction. What could not be told is absent, and `verdict` says why.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    pub verdict: Verdict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_interval_bps: Option<[u64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_interval_bps: Option<[u64; 2]>,
    /// Spread of the available bandwidth at the time scale of a train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_spread_bps: Option<u64>,
    /// Tracked over the runs before this one (see docs/methods).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracked_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracked_interval_bps: Option<[u64; 2]>,
    /// What each method says, and how much it counts.
    pub methods: Vec<Method>,
    /// Time between batches in which the receiver gets its packets; absent: none seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batching_ns: Option<u64>,
    /// Capacity above which these hosts cannot tell, with the time resolution seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_bps: Option<u64>,
    pub probe_bytes: u64,
    pub duration_us: u64,
    pub loss_ratio: f64,
    /// `multi_hop`, `unstable`, `policed`, `bursty`, `time_slotted`, `sender_limited`, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Both figures stand.
    Estimated,
    /// Capacity only.
    CapacityOnly,
    /// No faster than the sender itself: capacity is at least what is given.
    SenderLimited,
    /// The path is too fast for the clocks or the sender of these hosts.
    BeyondResolution,
    /// Too much was lost or spoilt.
    Disturbed,
    /// Nothing came.
    #[default]
    NoAnswer,
}

impl Verdict {
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Estimated => "estimated",
            Verdict::CapacityOnly => "capacity_only",
            Verdict::SenderLimited => "sender_limited",
            Verdict::BeyondResolution => "beyond_resolution",
            Verdict::Disturbed => "disturbed",
            Verdict::NoAnswer => "no_answer",
        }
    }
}

/// One way to the available bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// `empty_queue`, `rate_sweep`, `tcp_share`, `echo`.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_bps: Option<[u64; 2]>,
    /// In the fused figure.
    pub weight_ratio: f64,
    /// Why it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// A token bucket on the path: `burst_bytes` pass at the peak rate, the rest at the sustained one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub kind: BucketKind,
    pub peak_bps: u64,
    pub sustained_bps: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained_interval_bps: Option<[u64; 2]>,
    /// IP bytes.
    pub burst_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_interval_bytes: Option<[u64; 2]>,
    pub confidence_ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BucketKind {
    /// The excess waits.
    Shaper,
    /// The excess is dropped.
    Policer,
}
