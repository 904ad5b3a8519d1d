//! A prediction: the theoretical goodput of windows and streams on a path, compared with a scan.

use super::analysis::{Limiter, RateBound};
use super::scan::TransferSetting;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The path, hosts and settings of the prediction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionPlan {
    pub path: PredictionPath,
    pub hosts: PredictionHosts,
    pub windows_bytes: Vec<Option<u64>>,
    pub streams: Vec<u32>,
    pub congestion_controls: Vec<String>,
    /// Probability that a segment is lost independently of the queue; one table per value.
    pub loss_ratios: Vec<f64>,
    /// Queue size of the narrow link; one table per value.
    pub buffers_bytes: Vec<u64>,
    /// Duration of the transfer, ramp included.
    pub time_us: u64,
    /// The scan to compare with.
    pub scan_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionPath {
    /// IP rate of the narrow link.
    pub capacity_bps: u64,
    pub rtt_us: u64,
    pub mss_bytes: u32,
    /// IP and TCP headers of each segment.
    pub header_bytes: u32,
    /// Origin of the figures: `asked`, or the ids of runs.
    pub origin: String,
}

/// Limits of the hosts; absent: no limit known.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PredictionHosts {
    /// Window of a stream with autotuned buffers: half of tcp_rmem's max, or of tcp_wmem's.
    pub auto_window_bytes: Option<u64>,
    /// Maximum buffer that the kernel grants on request.
    pub granted_most_bytes: Option<u64>,
    /// Maximum rate of the slower end's CPU, all streams together.
    pub processor_bps: Option<u64>,
}

/// The measurements, if a scan is compared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PredictionObservation {
    pub measured: Vec<MeasuredSetting>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSetting {
    pub setting: TransferSetting,
    pub goodput_bps: u64,
    pub limited_by: Limiter,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PredictionAnalysis {
    pub version: u32,
    pub cells: Vec<PredictionCell>,
    pub agreement: Option<PredictionAgreement>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionCell {
    pub setting: TransferSetting,
    pub loss_ratio: f64,
    pub buffer_bytes: u64,
    /// Upper bounds of the goodput, lowest first; the first one applies.
    pub bounds: Vec<RateBound>,
    /// Goodput in the steady part, by the round model.
    pub goodput_bps: u64,
    pub limited_by: Limiter,
    /// Mean queue at the narrow link in the steady part.
    pub queue_bytes: u64,
    /// Share of the segments dropped by the full queue in the steady part.
    pub made_loss_ratio: f64,
    /// Median of the measurements of this setting.
    pub measured_bps: Option<u64>,
    /// (measured - predicted) / predicted.
    pub disagreement_ratio: Option<f64>,
    /// Explanation of the disagreement; absent if it is negligible.
    pub meaning: Option<String>,
}

/// The agreement of the prediction with the whole scan.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionAgreement {
    pub cells: u32,
    /// Spearman's rank correlation; absent with fewer than three cells, or if all are equal.
    pub rank_correlation: Option<f64>,
    /// Median of |measured - predicted| / measured.
    pub median_error_ratio: f64,
}
