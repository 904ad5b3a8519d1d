//! The difference between the two directions of paths over time: `longhaul report asymmetry`.

use super::comparison::TimePeriod;
use super::scan::HistogramBin;
use super::series::HostPair;
use super::{ReportCaveat, ReportFinding};
use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Report on the two directions of paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AsymmetryReport {
    pub schema: String,
    /// `asymmetry`.
    pub kind: String,
    pub longhaul: String,
    /// Runs of the two directions that started farther apart are not matched.
    pub most_apart_us: u64,
    pub paths: Vec<PathAsymmetry>,
    pub caveats: Vec<ReportCaveat>,
}

/// The direction that carries more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsymmetryVerdict {
    ForwardFaster,
    ReverseFaster,
    /// The difference may be due to chance.
    NoneSeen,
    /// Too few matched runs.
    CannotTell,
}

impl AsymmetryVerdict {
    /// Returns the word used in JSON.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// The two directions of one path.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathAsymmetry {
    /// The pair in the forward direction.
    pub pair: HostPair,
    pub period: Option<TimePeriod>,
    /// In time order.
    pub matched: Vec<MatchedRuns>,
    /// Forward and reverse runs without a partner.
    pub unmatched_run_counts: [u32; 2],
    /// Median of forward / reverse over the matched runs; absent: no run matched.
    pub median_ratio: Option<f64>,
    /// 95 % confidence interval; absent with fewer than six matched runs.
    pub median_interval_ratio: Option<[f64; 2]>,
    /// Sign test: the probability of a result this one-sided if the directions were equal.
    pub p_value: Option<f64>,
    pub verdict: AsymmetryVerdict,
    /// Matched runs by their (forward - reverse) / (forward + reverse).
    pub histogram: Vec<HistogramBin>,
    /// Causes, the most likely first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<ReportFinding>,
}

/// A forward run and a reverse run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MatchedRuns {
    /// Start of the forward run.
    pub at_us: i64,
    /// Start of the reverse run minus start of the forward run.
    pub apart_us: i64,
    pub forward_bps: u64,
    pub reverse_bps: u64,
    /// Forward / reverse.
    pub forward_by_reverse_ratio: f64,
    /// (forward - reverse) / (forward + reverse).
    pub asymmetry_ratio: f64,
}
