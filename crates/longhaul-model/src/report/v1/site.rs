//! All paths of an archive on one page: `longhaul report site`.

use super::ReportCaveat;
use super::analysis::Limiter;
use super::comparison::TimePeriod;
use super::path::NarrowLink;
use super::scan::{TopTenth, TransferSetting};
use super::series::{HostPair, SeriesPoint};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The summary of an archive.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteReport {
    pub schema: String,
    /// `site`.
    pub kind: String,
    pub longhaul: String,
    /// Period of the runs considered; absent: there are none.
    pub period: Option<TimePeriod>,
    /// Sorted by name.
    pub paths: Vec<SitePath>,
    pub caveats: Vec<ReportCaveat>,
}

/// One direction of one path.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SitePath {
    pub pair: HostPair,
    /// Runs of any kind.
    pub run_count: u32,
    /// Start of the latest run.
    pub last_at_us: i64,
    /// Bulk runs with a goodput, probes of scans included.
    pub bulk_run_count: u32,
    /// 90th percentile of the goodput of the bulk runs; absent with fewer than ten of them.
    pub top_tenth: Option<TopTenth>,
    pub greatest_bps: Option<u64>,
    pub median_bps: Option<u64>,
    pub best: Option<BestSetting>,
    /// The limiter of most bulk runs.
    pub limited_by: Option<Limiter>,
    /// Minimum of all RTTs, and median of the minimum of each run.
    pub rtt_min_us: Option<u64>,
    pub rtt_median_us: Option<u64>,
    /// The latest estimate of each.
    pub capacity_bps: Option<SeriesPoint>,
    pub available_bps: Option<SeriesPoint>,
    /// From the latest measurement under load.
    pub narrow_link: Option<NarrowLink>,
}

/// The best setting on a path.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BestSetting {
    pub setting: TransferSetting,
    pub goodput_bps: u64,
    /// The number of runs with this setting.
    pub repeats: u32,
    /// The scan that recommends it; absent: the setting with the best median among plain runs.
    pub scan_id: Option<String>,
}
