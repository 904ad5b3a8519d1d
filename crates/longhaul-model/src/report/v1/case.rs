//! A case: paths in two periods, beside each other. What `longhaul report case` gives.

use super::analysis::Limiter;
use super::comparison::{Change, Period};
use super::event::Event;
use super::path::{Route, RouteChange};
use super::scan::Setting;
use super::series::{Pair, Series};
use super::site::BestSetting;
use super::{Caveat, Finding};
use serde::{Deserialize, Serialize};

/// The report on a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub schema: String,
    /// `case`.
    pub kind: String,
    pub longhaul: String,
    pub before: Period,
    pub after: Period,
    /// The event that chose the periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    pub paths: Vec<PathCase>,
    pub caveats: Vec<Caveat>,
}

/// One path of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathCase {
    /// Forward: towards the host that was asked for.
    pub pair: Pair,
    /// Runs of the two periods.
    pub run_counts: [u32; 2],
    /// Each quantity that was measured in either period, forward first.
    pub changes: Vec<Change>,
    /// Forward first; a direction without a trace is left out.
    pub routes: Vec<RouteCase>,
    /// What bulk runs were made with, and what limited them.
    pub settings: Vec<SettingCase>,
    /// What the latest scan of the later period recommends, forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<BestSetting>,
    /// Lasting changes that an agent found in or between the periods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Causes of what changed, the likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What stayed as it was, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<String>,
    /// What the archive does not have, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Values of both periods and of the time between.
    pub series: Vec<Series>,
}

/// Routes of one direction: the one seen most in each period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteCase {
    pub pair: Pair,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<TracedRoute>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<TracedRoute>,
    /// Of the later against the earlier; absent where one of them is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<RouteChange>,
}

/// A route of a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracedRoute {
    /// Of the trace that is shown: the last of this route in the period.
    pub run_id: String,
    pub at_us: i64,
    /// Traces of this route, and all traces of the period.
    pub run_counts: [u32; 2],
    pub route: Route,
}

/// One setting of bulk runs in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingCase {
    pub pair: Pair,
    pub setting: Setting,
    /// Used in the earlier and in the later period.
    pub run_counts: [u32; 2],
    /// Median goodput of each; absent: no run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_bps: Option<u64>,
    /// What limited most of its runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_limited_by: Option<Limiter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_limited_by: Option<Limiter>,
}
