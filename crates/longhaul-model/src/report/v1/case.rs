//! A case: paths in two periods, compared: `longhaul report case`.

use super::analysis::Limiter;
use super::path::{ObservedRoute, RouteDifference};
use super::scan::TransferSetting;
use super::{
    BestSetting, ChangeEvent, HostPair, QuantityChange, QuantitySeries, ReportCaveat,
    ReportFinding, TimePeriod,
};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The report on a case.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseReport {
    pub schema: String,
    /// `case`.
    pub kind: String,
    pub longhaul: String,
    pub before: TimePeriod,
    pub after: TimePeriod,
    /// The event that determined the periods.
    pub event_id: Option<String>,
    pub paths: Vec<PathCase>,
    pub caveats: Vec<ReportCaveat>,
}

/// One path of a case.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathCase {
    /// The forward direction: towards the requested host.
    pub pair: HostPair,
    /// Runs of each of the two periods.
    pub run_counts: [u32; 2],
    /// Every quantity measured in either period, forward first.
    pub changes: Vec<QuantityChange>,
    /// Forward first; a direction without a trace is absent.
    pub routes: Vec<RouteCase>,
    /// Settings of the bulk runs, and their limiters.
    pub settings: Vec<SettingCase>,
    /// The recommendation of the latest scan in the later period, forward.
    pub recommended: Option<BestSetting>,
    /// Lasting changes that an agent found in or between the periods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ChangeEvent>,
    /// Causes of the changes, the most likely first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<ReportFinding>,
    /// Sentences about what did not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<String>,
    /// Sentences about what the archive does not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Values of both periods and of the time between them.
    pub series: Vec<QuantitySeries>,
}

/// Routes of one direction: the most frequent one of each period.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteCase {
    pub pair: HostPair,
    pub before: Option<TracedRoute>,
    pub after: Option<TracedRoute>,
    /// The later route compared with the earlier one; absent if either is absent.
    pub change: Option<RouteDifference>,
}

/// A route of one period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracedRoute {
    /// The trace that is shown: the last one of this route in the period.
    pub run_id: String,
    pub at_us: i64,
    /// Traces of this route, and all traces of the period.
    pub run_counts: [u32; 2],
    pub route: ObservedRoute,
}

/// One setting of bulk runs in one direction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingCase {
    pub pair: HostPair,
    pub setting: TransferSetting,
    /// Runs with this setting in the earlier and in the later period.
    pub run_counts: [u32; 2],
    /// Median goodput of each period; absent: no run.
    pub before_bps: Option<u64>,
    pub after_bps: Option<u64>,
    /// The limiter of most of its runs.
    pub before_limited_by: Option<Limiter>,
    pub after_limited_by: Option<Limiter>,
}
