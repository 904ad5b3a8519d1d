//! What bulk load does to the round trip, to delay variation, to loss and to other flows.

use super::analysis::Limiter;
use super::path::Echo;
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// True: this end sends the load.
    pub forward: bool,
    /// Loads, one after another, each between idle times.
    pub steps: Vec<Step>,
    /// Between probes of the round trip.
    pub probe_interval_us: u64,
    /// Of a probe, IP header included.
    pub probe_bytes: u32,
    /// Before the first step, and after each.
    pub idle_us: u64,
    /// Each step's payload time.
    pub load_us: u64,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub streams: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// All streams together; absent: as fast as it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// The sender yields to others: it holds the queue below a target delay.
    #[serde(default)]
    pub scavenger: bool,
    /// One stream of another program runs beside it: how much it loses is the harm.
    #[serde(default)]
    pub competitor: bool,
    /// Only the competitor runs, for the comparison.
    #[serde(default)]
    pub baseline: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// Of the probes: `kernel`, `kernel_receive`, `user`.
    pub clock: String,
    /// Least round trip of the control connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_rtt_us: Option<u64>,
    pub probes: Vec<Probe>,
    pub phases: Vec<Phase>,
}

/// One probe: an echo with the far end's two times in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    #[serde(flatten)]
    pub echo: Echo,
    /// Receive time there minus send time here, with the clocks' unknown offset in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_ns: Option<i64>,
}

/// A stretch of the time axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    pub from_us: u64,
    pub until_us: u64,
    /// Of the plan's steps; absent: idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Flow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor: Option<Flow>,
    /// Why the load of this step did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A bulk run beside the probes; its own report is in the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Counted by the receiver.
    pub bytes: u64,
    pub elapsed_us: u64,
    pub limited_by: Limiter,
    /// Received bytes by time, on the axis of the probes.
    pub series: Vec<Point>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Payload of a full segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    pub at_us: u64,
    /// All that had been received by then, all streams together.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Delays>,
    pub steps: Vec<StepResult>,
    /// What yielding is worth, where a scavenger and a competitor were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scavenger: Option<Scavenger>,
}

/// Of the probes of one stretch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    pub probes: u32,
    pub rtt_min_ns: u64,
    pub rtt_median_ns: u64,
    pub rtt_p95_ns: u64,
    pub rtt_max_ns: u64,
    pub loss_ratio: f64,
    pub loss_interval_ratio: [f64; 2],
    /// 95th percentile minus least, one way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_variation_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_variation_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    pub step: u32,
    pub delays: Option<Delays>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    /// Round trips per minute under load (draft-ietf-ippm-responsiveness).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips_per_minute: Option<u32>,
    /// Median round trip under load minus that on the idle path, and its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise_interval_ns: Option<[u64; 2]>,
    /// Which way it grew: `forward`, `reverse`, `both`; absent: it did not, or cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grew: Option<String>,
    /// Most that the queue added to a round trip: the 99th percentile under load minus the median
    /// on the idle path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_delay_ns: Option<u64>,
    /// Most that stood in the queue, as IP packets: that delay times the rate of what we sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// From the end of the load until round trips are back on the idle level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_bps: Option<u64>,
    /// Share of its rate alone that the competitor kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kept_ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kept_interval_ratio: Option<[f64; 2]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scavenger {
    /// Steps compared, of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_step: Option<u32>,
    pub yielding_step: u32,
    /// Absent: no plain load ran beside the competitor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kept_plain_ratio: Option<f64>,
    pub competitor_kept_yielding_ratio: f64,
    /// What the scavenger got of the path that the competitor left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_ratio: Option<f64>,
    /// 95 % interval of the share kept beside the scavenger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kept_yielding_interval_ratio: Option<[f64; 2]>,
    /// What the scavenger got with the path to itself, of what a plain load got there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_ratio: Option<f64>,
    pub yields: bool,
    pub text: String,
}
