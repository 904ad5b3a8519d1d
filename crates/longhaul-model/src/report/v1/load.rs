//! The effect of bulk load on RTT, delay variation, loss and other flows.

use super::analysis::Limiter;
use super::path::ProbeEcho;
use serde::{Deserialize, Serialize};

/// The requested measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    /// True: this end sends the load.
    pub forward: bool,
    /// Loads in order, each between idle phases.
    pub steps: Vec<LoadStep>,
    /// Time between RTT probes.
    pub probe_interval_us: u64,
    /// Size of a probe, IP header included.
    pub probe_bytes: u32,
    /// Idle time before the first step and after each step.
    pub idle_us: u64,
    /// Payload time of each step.
    pub load_us: u64,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadStep {
    pub streams: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Rate of all streams together; absent: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// The sender yields to other flows: it keeps the queue below a target delay.
    #[serde(default)]
    pub scavenger: bool,
    /// One stream of another program runs at the same time: its loss of throughput is the harm.
    #[serde(default)]
    pub competitor: bool,
    /// Only the competitor runs, as the baseline.
    #[serde(default)]
    pub baseline: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadObservation {
    /// Timestamps of the probes: `kernel`, `kernel_receive`, `user`.
    pub clock: String,
    /// Minimum RTT of the control connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_rtt_us: Option<u64>,
    pub probes: Vec<LoadProbe>,
    pub phases: Vec<LoadPhase>,
}

/// One probe: an echo that carries two timestamps of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadProbe {
    #[serde(flatten)]
    pub echo: ProbeEcho,
    /// Receive time at the peer minus send time here; includes the unknown clock offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_ns: Option<i64>,
}

/// A phase of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPhase {
    pub from_us: u64,
    pub until_us: u64,
    /// Index into the plan's steps; absent: idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadFlow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor: Option<LoadFlow>,
    /// The reason why the load of this step did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A bulk run at the same time as the probes; its own report is in the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFlow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Counted by the receiver.
    pub bytes: u64,
    pub elapsed_us: u64,
    pub limited_by: Limiter,
    /// Received bytes over time, on the time axis of the probes.
    pub series: Vec<LoadPoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Payload size of a full segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPoint {
    pub at_us: u64,
    /// Bytes received by then, all streams together.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadAnalysis {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<ProbeDelays>,
    pub steps: Vec<LoadStepResult>,
    /// The benefit of yielding, if a scavenger and a competitor were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scavenger: Option<ScavengerResult>,
}

/// Statistics of the probes of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbeDelays {
    pub probes: u32,
    pub rtt_min_ns: u64,
    pub rtt_median_ns: u64,
    pub rtt_p95_ns: u64,
    pub rtt_max_ns: u64,
    pub loss_ratio: f64,
    pub loss_interval_ratio: [f64; 2],
    /// 95th percentile minus minimum of the one-way delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_variation_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_variation_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadStepResult {
    pub step: u32,
    pub delays: Option<ProbeDelays>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    /// Round trips per minute under load (draft-ietf-ippm-responsiveness).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips_per_minute: Option<u32>,
    /// Median RTT under load minus median RTT on the idle path, and its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise_interval_ns: Option<[u64; 2]>,
    /// The direction in which delay grew: `forward`, `reverse`, `both`; absent: it did not grow, or
    /// the direction is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grew: Option<String>,
    /// Maximum delay added by the queue: the 99th percentile of the RTT under load minus the median
    /// RTT on the idle path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_delay_ns: Option<u64>,
    /// Maximum queue length in bytes of IP packets: that delay times the rate of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// Time from the end of the load until the RTT is back at the idle level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_bps: Option<u64>,
    /// Share of its unloaded rate that the competitor kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kept_ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kept_interval_ratio: Option<[f64; 2]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScavengerResult {
    /// The plan's steps that are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_step: Option<u32>,
    pub yielding_step: u32,
    /// Absent: no plain load ran together with the competitor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kept_plain_ratio: Option<f64>,
    pub competitor_kept_yielding_ratio: f64,
    /// Share that the scavenger used of the capacity left by the competitor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_ratio: Option<f64>,
    /// 95 % confidence interval of the share that the competitor kept beside the scavenger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kept_yielding_interval_ratio: Option<[f64; 2]>,
    /// Rate of the scavenger alone, relative to a plain load alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_ratio: Option<f64>,
    pub yields: bool,
    pub text: String,
}
