//! All paths of an archive on one page. What `longhaul report site` gives.

use super::Caveat;
use super::analysis::Limiter;
use super::comparison::Period;
use super::path::NarrowLink;
use super::scan::{Setting, TopTenth};
use super::series::{Pair, Point};
use serde::{Deserialize, Serialize};

/// The summary of an archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub schema: String,
    /// `site`.
    pub kind: String,
    pub longhaul: String,
    /// Of the runs that were looked at; absent: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// By name.
    pub paths: Vec<SitePath>,
    pub caveats: Vec<Caveat>,
}

/// One direction of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SitePath {
    pub pair: Pair,
    /// Of any kind.
    pub run_count: u32,
    /// Start of the latest run.
    pub last_at_us: i64,
    /// Bulk runs with a goodput, probes of scans included.
    pub bulk_run_count: u32,
    /// The goodput above which a tenth of the bulk runs lie; absent with fewer than ten of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_tenth: Option<TopTenth>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greatest_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<BestSetting>,
    /// What limited most of the bulk runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limiter>,
    /// Least of all round trips, and the middle of each run's least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_median_us: Option<u64>,
    /// The latest of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<Point>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_bps: Option<Point>,
    /// As the latest look under load placed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrow_link: Option<NarrowLink>,
}

/// The setting that does best on a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BestSetting {
    pub setting: Setting,
    pub goodput_bps: u64,
    /// Runs behind it.
    pub repeats: u32,
    /// The scan that recommends it; absent: the best median among the settings of plain runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan_id: Option<String>,
}
