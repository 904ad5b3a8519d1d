//! A scan: throughput over window, streams, congestion control and pacing. The search is guided by
//! the limiter of each probe (`longhaul tune`), or covers every cell of a grid (`longhaul tune
//! --grid`).
//!
//! Every probe is a throughput run with its own report, named by [`ScanCell::run_id`]; a cell holds the
//! figures that the scan's conclusions need.

use super::analysis::{Limiter, RateBound};
use super::plan::{self, RunDirection};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The requested scan.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanPlan {
    pub search: SearchMode,
    /// `both`: every cell is measured forward and in reverse, one after the other.
    pub direction: RunDirection,
    /// Values of a grid, or values allowed in a guided search (empty: no restriction). An absent
    /// window is autotuned by the kernel.
    pub windows_bytes: Vec<Option<u64>>,
    pub streams: Vec<u32>,
    /// Absent: the sender's default.
    pub congestion_controls: Vec<Option<String>>,
    /// Measurements of each cell of a grid.
    pub repeats: u32,
    /// Seed of the shuffled order.
    pub seed: u64,
    /// The start of a guided search and the reference for its result: the setting in use now.
    pub present: Option<TransferSetting>,
    pub budget: ScanBudget,
    /// Common settings of all probes; the cell's setting and direction replace these.
    pub probe: plan::ThroughputPlan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    Guided,
    Grid,
}

/// Limits of a scan, which ends before it would exceed any of them.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanBudget {
    pub probes: u32,
    /// Wall time of the whole scan.
    pub time_us: u64,
    /// Payload of all probes together.
    pub bytes: Option<u64>,
}

/// The tunable parameters of a transfer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransferSetting {
    /// Requested send and receive buffers of both ends; absent: autotuned by the kernel.
    pub window_bytes: Option<u64>,
    pub streams: u32,
    /// Absent: the sender's default.
    pub congestion_control: Option<String>,
    /// Pacing limit of each stream.
    pub pacing_bps: Option<u64>,
}

impl Default for TransferSetting {
    /// Returns one stream with kernel defaults.
    fn default() -> Self {
        TransferSetting {
            window_bytes: None,
            streams: 1,
            congestion_control: None,
            pacing_bps: None,
        }
    }
}

/// The measured cells, in time order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ScanObservation {
    pub cells: Vec<ScanCell>,
}

/// One probe.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ScanCell {
    /// Position in the scan, from 0.
    pub index: u32,
    pub setting: TransferSetting,
    /// True: the initiator is the sender.
    pub forward: bool,
    /// A repeated measurement of one setting during a grid, to detect changes of the path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sentinel: bool,
    /// The reason why a guided search chose it.
    pub why: Option<String>,
    /// Report of the run; absent if it failed.
    pub run_id: Option<String>,
    /// Start of the probe since the start of the scan.
    pub at_us: u64,
    pub duration_us: u64,
    /// The reason why there is no result.
    pub error: Option<String>,
    /// Payload read by the receiver, ramp included.
    pub receiver_bytes: Option<u64>,
    /// Goodput of the steady part, from the run's own analysis, as are the following fields.
    pub goodput_bps: Option<u64>,
    pub goodput_interval_bps: Option<[u64; 2]>,
    pub limited_by: Option<Limiter>,
    pub confidence_ratio: Option<f64>,
    pub next_limit: Option<RateBound>,
    pub idle_rtt_us: Option<u64>,
    pub loaded_rtt_us: Option<u64>,
    pub data_segments_sent: Option<u64>,
    pub retransmitted_segments: Option<u64>,
    pub mss_bytes: Option<u64>,
    /// Minimum that this end's kernel granted to any stream, if a window was requested.
    pub granted_send_bytes: Option<u64>,
    pub granted_receive_bytes: Option<u64>,
    /// The congestion control that the sender's kernel used.
    pub congestion_control: Option<String>,
}

/// Conclusions from the cells.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ScanAnalysis {
    pub version: u32,
    /// One entry per scanned direction, forward first.
    pub directions: Vec<ScanConclusion>,
    /// Probes with a result, including those of an interrupted part.
    pub probes_run: u32,
    /// Cells of the full grid: of this one, or of the grid that the guided search avoided.
    pub grid_cells: u32,
    /// The reason why the scan ended: `settled`, `grid_done`, `probes`, `time`, `bytes`,
    /// `far_end_gone`, `interrupted`, `application`, `policed`, `shaped`.
    pub stopped_by: String,
    pub asymmetry: Option<ScanAsymmetry>,
    /// Periods of the scan in which the path did not change, in time order; with more than one, the
    /// path changed, and nothing was averaged over a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regimes: Vec<PathRegime>,
}

/// Conclusions about one direction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ScanConclusion {
    pub forward: bool,
    /// The setting with the highest goodput.
    pub best: Option<SettingChoice>,
    /// The smallest setting within 2 % of the best.
    pub recommended: Option<SettingChoice>,
    /// One stream with kernel defaults.
    pub default: Option<SettingChoice>,
    /// The setting in use before, if one was given.
    pub present: Option<SettingChoice>,
    /// The top tenth of the cells: SLAC's "maximum".
    pub top_tenth: Option<TopTenth>,
    /// Goodput over streams, one curve for each window and congestion control.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<GoodputCurve>,
    /// Kernel settings that the recommended setting requires and a host lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<NeededSysctl>,
}

/// A setting and its result.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingChoice {
    pub setting: TransferSetting,
    /// Median of its probes.
    pub goodput_bps: u64,
    pub goodput_interval_bps: Option<[u64; 2]>,
    pub probes: u32,
    pub limited_by: Limiter,
    pub loaded_rtt_us: Option<u64>,
    pub retransmitted_ratio: Option<f64>,
    /// Goodput times idle RTT, divided by the number of streams: the minimum that each stream must
    /// have in flight, so a smaller window is not enough.
    pub least_window_bytes: Option<u64>,
    /// Reports of its probes.
    pub run_ids: Vec<String>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopTenth {
    /// 90th percentile of the measurements.
    pub goodput_bps: u64,
    pub goodput_interval_bps: Option<[u64; 2]>,
    pub cells: u32,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoodputCurve {
    pub window_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    /// By increasing number of streams.
    pub points: Vec<CurvePoint>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    pub streams: u32,
    /// Median of its repeats.
    pub goodput_bps: u64,
    /// Minimum and maximum of its repeats; absent with only one.
    pub range_bps: Option<[u64; 2]>,
    pub repeats: u32,
    /// The limiter of most repeats.
    pub limited_by: Limiter,
}

/// A kernel setting that must be changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededSysctl {
    /// `sender` or `receiver`.
    pub place: String,
    pub host: String,
    /// A sysctl's dotted name.
    pub name: String,
    /// Absent: could not be read.
    pub is: Option<String>,
    pub wanted: String,
    pub why: String,
}

/// (forward - reverse) / (forward + reverse), as SLAC defined it in 2000.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanAsymmetry {
    pub cells: Vec<AsymmetryCell>,
    pub median_ratio: f64,
    pub histogram: Vec<HistogramBin>,
    /// The limiters of the two directions, if they differ, in a sentence.
    pub cause: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AsymmetryCell {
    pub setting: TransferSetting,
    pub asymmetry_ratio: f64,
    pub forward_bps: u64,
    pub reverse_bps: u64,
    pub forward_limited_by: Limiter,
    pub reverse_limited_by: Limiter,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HistogramBin {
    /// Inclusive.
    pub from_ratio: f64,
    /// Exclusive, except in the last bin.
    pub to_ratio: f64,
    pub cells: u32,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathRegime {
    pub first_cell: u32,
    pub last_cell: u32,
    pub from_us: u64,
    pub to_us: u64,
    /// Goodput of the setting that was measured in all regimes.
    pub sentinel_bps: Option<u64>,
    pub idle_rtt_us: Option<u64>,
    /// Difference from the previous regime, in a sentence.
    pub change: Option<String>,
}
