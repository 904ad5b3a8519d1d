//! The effect of bulk load on RTT, delay variation, loss and other flows.

use super::analysis::Limiter;
use super::path::ProbeEcho;
use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

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
    /// Payload time of each step; with `responsiveness`, the maximum time of each direction.
    pub load_us: u64,
    /// A test of responsiveness instead of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responsiveness: Option<ResponsivenessPlan>,
}

/// A test of responsiveness (draft-ietf-ippm-responsiveness-09): a download, then an upload.
///
/// A foreign probe and a self probe start in each of the plan's probe intervals, less often on slow
/// paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponsivenessPlan {
    pub config_url: String,
    /// Time after which a connection is added and stability is judged.
    pub interval_us: u64,
    /// Maximum number of load-generating connections of a direction.
    pub connections: u32,
}

/// One load.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadStep {
    pub streams: u32,
    pub window_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    /// Rate of all streams together; absent: unlimited.
    pub rate_bps: Option<u64>,
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

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadObservation {
    /// Timestamps of the probes: `kernel`, `kernel_receive`, `user`.
    pub clock: String,
    /// Minimum RTT of the control connection.
    pub idle_rtt_us: Option<u64>,
    pub probes: Vec<LoadProbe>,
    pub phases: Vec<LoadPhase>,
    pub responsiveness: Option<ResponsivenessObservation>,
}

/// A test of responsiveness.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResponsivenessObservation {
    /// Address of the server that was loaded; its configuration may name another than its own.
    pub address: String,
    pub download: Option<ResponsivenessRun>,
    pub upload: Option<ResponsivenessRun>,
}

/// The transfers and probes of one direction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResponsivenessRun {
    /// Bytes of all load-generating connections in each interval: payload received, or bytes that
    /// TCP acknowledged in an upload.
    pub interval_bytes: Vec<u64>,
    /// Number of load-generating connections at the end.
    pub connections: u32,
    pub foreign_probes: Vec<ForeignProbe>,
    pub self_probes: Vec<SelfProbe>,
    /// Probes without a result.
    pub failed_probes: u32,
    /// The reason why the direction ended early.
    pub error: Option<String>,
}

/// A request on a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignProbe {
    /// End, since the start of the direction.
    pub ended_us: u64,
    /// Duration of the TCP handshake.
    pub tcp_us: u64,
    /// Duration of the TLS handshake, which is one round trip (TLS 1.3).
    pub tls_us: u64,
    /// Time from the request to the whole response.
    pub http_us: u64,
}

/// A request on a load-generating connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfProbe {
    /// End, since the start of the direction.
    pub ended_us: u64,
    pub http_us: u64,
}

/// One probe: an echo that carries two timestamps of the peer.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadProbe {
    #[serde(flatten)]
    pub echo: ProbeEcho,
    /// Receive time at the peer minus send time here; includes the unknown clock offset.
    pub forward_ns: Option<i64>,
    pub reverse_ns: Option<i64>,
}

/// A phase of the measurement.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPhase {
    pub from_us: u64,
    pub until_us: u64,
    /// Index into the plan's steps; absent: idle.
    pub step: Option<u32>,
    pub load: Option<LoadFlow>,
    pub competitor: Option<LoadFlow>,
    /// The reason why the load of this step did not run.
    pub error: Option<String>,
}

/// A bulk run at the same time as the probes; its own report is in the archive.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFlow {
    pub run_id: Option<String>,
    /// Counted by the receiver.
    pub bytes: u64,
    pub elapsed_us: u64,
    pub limited_by: Limiter,
    /// Received bytes over time, on the time axis of the probes.
    pub series: Vec<LoadPoint>,
    pub retransmits: Option<u64>,
    /// Payload size of a full segment.
    pub mss_bytes: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPoint {
    pub at_us: u64,
    /// Bytes received by then, all streams together.
    pub bytes: u64,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadAnalysis {
    pub version: u32,
    pub idle: Option<ProbeDelays>,
    pub steps: Vec<LoadStepResult>,
    /// The benefit of yielding, if a scavenger and a competitor were measured.
    pub scavenger: Option<ScavengerResult>,
    /// Results of a test of responsiveness.
    pub download: Option<DirectionResponsiveness>,
    pub upload: Option<DirectionResponsiveness>,
}

/// The responsiveness of one direction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionResponsiveness {
    /// Round trips per minute (RPM): the mean of the two below.
    pub round_trips_per_minute: Option<u32>,
    /// On connections of their own, and on load-generating connections.
    pub foreign_round_trips_per_minute: Option<u32>,
    pub self_round_trips_per_minute: Option<u32>,
    pub confidence: ConfidenceGrade,
    /// Trimmed means of the last intervals.
    pub tcp_us: Option<u64>,
    pub tls_us: Option<u64>,
    pub http_us: Option<u64>,
    pub self_http_us: Option<u64>,
    /// Numbers of probes in these intervals.
    pub foreign_probes: u32,
    pub self_probes: u32,
    /// Goodput of the last intervals.
    pub capacity_bps: Option<u64>,
    pub capacity_confidence: ConfidenceGrade,
}

impl DirectionResponsiveness {
    /// Returns whether both stages are over.
    pub fn is_settled(&self) -> bool {
        self.confidence == ConfidenceGrade::High
    }
}

/// The confidence in a result: `low` without enough intervals, `high` if it was stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfidenceGrade {
    Low,
    Medium,
    High,
}

impl ConfidenceGrade {
    /// Returns the word used in JSON and in text.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// Statistics of the probes of one phase.
#[skip_serializing_none]
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
    pub forward_variation_ns: Option<u64>,
    pub reverse_variation_ns: Option<u64>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadStepResult {
    pub step: u32,
    #[serialize_always]
    pub delays: Option<ProbeDelays>,
    pub goodput_bps: Option<u64>,
    /// Round trips per minute under load (draft-ietf-ippm-responsiveness).
    pub round_trips_per_minute: Option<u32>,
    /// Median RTT under load minus median RTT on the idle path, and its interval.
    pub rise_ns: Option<u64>,
    pub rise_interval_ns: Option<[u64; 2]>,
    /// The direction in which delay grew: `forward`, `reverse`, `both`; absent: it did not grow, or
    /// the direction is unknown.
    pub grew: Option<String>,
    /// Maximum delay added by the queue: the 99th percentile of the RTT under load minus the median
    /// RTT on the idle path.
    pub queue_delay_ns: Option<u64>,
    /// Maximum queue length in bytes of IP packets: that delay times the rate of the load.
    pub queue_bytes: Option<u64>,
    /// Time from the end of the load until the RTT is back at the idle level.
    pub recovery_us: Option<u64>,
    pub competitor_bps: Option<u64>,
    /// Share of its unloaded rate that the competitor kept.
    pub competitor_kept_ratio: Option<f64>,
    pub competitor_kept_interval_ratio: Option<[f64; 2]>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScavengerResult {
    /// The plan's steps that are compared.
    pub plain_step: Option<u32>,
    pub yielding_step: u32,
    /// Absent: no plain load ran together with the competitor.
    pub competitor_kept_plain_ratio: Option<f64>,
    pub competitor_kept_yielding_ratio: f64,
    /// Share that the scavenger used of the capacity left by the competitor.
    pub used_ratio: Option<f64>,
    /// 95 % confidence interval of the share that the competitor kept beside the scavenger.
    pub competitor_kept_yielding_interval_ratio: Option<[f64; 2]>,
    /// Rate of the scavenger alone, relative to a plain load alone.
    pub alone_ratio: Option<f64>,
    pub yields: bool,
    pub text: String,
}
