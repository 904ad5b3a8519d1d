//! A prediction: what theory says of windows and streams on a path, beside a measured scan.

use super::analysis::{Bound, Limiter};
use super::scan::Setting;
use serde::{Deserialize, Serialize};

/// The path, the hosts and the settings that are predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub path: Path,
    pub hosts: Hosts,
    pub windows_bytes: Vec<Option<u64>>,
    pub streams: Vec<u32>,
    pub congestion_controls: Vec<String>,
    /// Probability that a segment is lost, whatever the queue; each is a table of its own.
    pub loss_ratios: Vec<f64>,
    /// Queue of the narrow link; each is a table of its own.
    pub buffers_bytes: Vec<u64>,
    /// Length of the transfer; the ramp is inside.
    pub time_us: u64,
    /// The scan that is laid beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// IP rate of the narrow link.
    pub capacity_bps: u64,
    pub rtt_us: u64,
    pub mss_bytes: u32,
    /// IP and TCP headers of each segment.
    pub header_bytes: u32,
    /// Where the figures come from: `asked`, or the ids of runs.
    pub origin: String,
}

/// What the hosts allow; absent: no limit known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hosts {
    /// Window of a stream whose buffers the kernel sizes: half of tcp_rmem's most, or tcp_wmem's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_window_bytes: Option<u64>,
    /// The most that the kernel grants when asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_most_bytes: Option<u64>,
    /// What the slower end's processor can do, all streams together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_bps: Option<u64>,
}

/// What was measured, where a scan is laid beside it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    pub measured: Vec<Measured>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub setting: Setting,
    pub goodput_bps: u64,
    pub limited_by: Limiter,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    pub cells: Vec<Cell>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub setting: Setting,
    pub loss_ratio: f64,
    pub buffer_bytes: u64,
    /// What the goodput cannot be above, least first; the first one is the bound.
    pub bounds: Vec<Bound>,
    /// Closed forms of the mean, with the name of the formula in their words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formulas: Vec<Bound>,
    /// Goodput by the round model, steady part.
    pub goodput_bps: u64,
    pub limited_by: Limiter,
    /// Mean queue at the narrow link, steady part.
    pub queue_bytes: u64,
    /// Share of the segments that the full queue dropped, steady part.
    pub made_loss_ratio: f64,
    /// Median over the measurements of this setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bps: Option<u64>,
    /// (measured - predicted) / predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disagreement_ratio: Option<f64>,
    /// What the disagreement means; absent where there is none to speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
}

/// How the prediction lies on the scan as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    pub cells: u32,
    /// Spearman's; absent with fewer than three cells, or where all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    /// Of |measured - predicted| / measured.
    pub median_error_ratio: f64,
}
