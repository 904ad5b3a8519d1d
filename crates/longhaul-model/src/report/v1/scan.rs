//! A scan: throughput over window, streams, congestion control and pacing. Guided by what limited
//! each probe (`longhaul tune`), or every cell of a grid (`longhaul tune --grid`).
//!
//! Every probe is a throughput run with a report of its own, named by [`Cell::run_id`]; a cell holds
//! what the scan's conclusions need of it.

use super::analysis::{Bound, Limiter};
use super::plan::{self, Direction};
use serde::{Deserialize, Serialize};

/// What is asked of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub search: Search,
    /// `both`: every cell is measured forward and in reverse, one after the other.
    pub direction: Direction,
    /// Of a grid, what is crossed; of a guided search, what may be tried (empty: as it likes). An
    /// absent window is sized by the kernel.
    pub windows_bytes: Vec<Option<u64>>,
    pub streams: Vec<u32>,
    /// Absent: the sender's default.
    pub congestion_controls: Vec<Option<String>>,
    /// Measurements of each cell of a grid.
    pub repeats: u32,
    /// Of the shuffled order.
    pub seed: u64,
    /// Where a guided search starts, and what its result is compared with: the setting in use now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<Setting>,
    pub budget: Budget,
    /// What all probes have in common; the cell's setting and direction replace its own.
    pub probe: plan::Plan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Search {
    Guided,
    Grid,
}

/// A scan ends before it would pass any of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub probes: u32,
    /// Wall time of the whole scan.
    pub time_us: u64,
    /// Payload of all probes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What can be set for a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    /// Send and receive buffer asked at both ends; absent: the kernel sizes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    pub streams: u32,
    /// Absent: the sender's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Ceiling of each stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_bps: Option<u64>,
}

impl Default for Setting {
    /// One stream, everything left to the kernel.
    fn default() -> Self {
        Setting {
            window_bytes: None,
            streams: 1,
            congestion_control: None,
            pacing_bps: None,
        }
    }
}

/// What was seen, in the order of time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    pub cells: Vec<Cell>,
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Place in the scan's order, from 0.
    pub index: u32,
    pub setting: Setting,
    /// True: the initiator is the sender.
    pub forward: bool,
    /// A grid measures one setting again and again between the others, to see the path change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sentinel: bool,
    /// Why a guided search chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The report of the whole run; absent when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// When the probe began, since the scan began.
    pub at_us: u64,
    pub duration_us: u64,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the receiver took, ramp included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_bytes: Option<u64>,
    /// Of the steady part, as in the run's own analysis; so are the next ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_interval_bps: Option<[u64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limiter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_limit: Option<Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_rtt_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_rtt_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_segments_sent: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted_segments: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u64>,
    /// The least that the kernel of this end granted to any stream, where a window was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_send_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_receive_bytes: Option<u64>,
    /// What the sender's kernel used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
}

/// What follows from the cells.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    /// One for each direction that was scanned, forward first.
    pub directions: Vec<Conclusion>,
    /// Probes that gave a result, those of an interrupted part included.
    pub probes_run: u32,
    /// Cells of the full grid: of this one, or of the one that a guided search spared.
    pub grid_cells: u32,
    /// Why the scan ended: `settled`, `grid_done`, `probes`, `time`, `bytes`, `far_end_gone`, `interrupted`,
    /// `application`, `policed`, `shaped`.
    pub stopped_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asymmetry: Option<Asymmetry>,
    /// Stretches of the scan in which the path was one and the same, in the order of time; more than
    /// one: the path changed, and nothing was averaged over the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regimes: Vec<Regime>,
}

/// What one direction gave.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conclusion {
    pub forward: bool,
    /// The highest goodput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Choice>,
    /// The smallest setting within 3 % of the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<Choice>,
    /// One stream, everything left to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Choice>,
    /// The setting in use before, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<Choice>,
    /// The upper tenth of the cells: SLAC's "maximum".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_tenth: Option<TopTenth>,
    /// Goodput against streams, one for each window and congestion control.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// Kernel settings that the recommended setting needs and a host does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
}

/// A setting, with what it gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    pub setting: Setting,
    /// Median over its probes.
    pub goodput_bps: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_interval_bps: Option<[u64; 2]>,
    pub probes: u32,
    pub limited_by: Limiter,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_rtt_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted_ratio: Option<f64>,
    /// Goodput times idle RTT, shared by the streams: what each of them has to hold in flight at
    /// least, so no smaller window would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_window_bytes: Option<u64>,
    /// Reports of its probes.
    pub run_ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopTenth {
    /// Nine tenths of the measurements are below it.
    pub goodput_bps: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_interval_bps: Option<[u64; 2]>,
    pub cells: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// By rising number of streams.
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub streams: u32,
    /// Median over its repeats.
    pub goodput_bps: u64,
    /// Least and most of its repeats; absent with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_bps: Option<[u64; 2]>,
    pub repeats: u32,
    /// What limited most of them.
    pub limited_by: Limiter,
}

/// A kernel setting to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// `sender` or `receiver`.
    pub place: String,
    pub host: String,
    /// A sysctl's dotted name.
    pub name: String,
    /// Absent: could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<String>,
    pub wanted: String,
    pub why: String,
}

/// (forward - reverse) / (forward + reverse), as SLAC defined it in 2000.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asymmetry {
    pub cells: Vec<AsymmetryCell>,
    pub median_ratio: f64,
    pub histogram: Vec<Bin>,
    /// What limits each direction where they differ, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AsymmetryCell {
    pub setting: Setting,
    pub asymmetry_ratio: f64,
    pub forward_bps: u64,
    pub reverse_bps: u64,
    pub forward_limited_by: Limiter,
    pub reverse_limited_by: Limiter,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Included.
    pub from_ratio: f64,
    /// Excluded, but for the last one.
    pub to_ratio: f64,
    pub cells: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    pub first_cell: u32,
    pub last_cell: u32,
    pub from_us: u64,
    pub to_us: u64,
    /// Goodput of the setting that was measured in all regimes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_rtt_us: Option<u64>,
    /// What differs from the regime before, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}
