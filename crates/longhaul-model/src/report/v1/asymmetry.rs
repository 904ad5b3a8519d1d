//! How unlike the two directions of paths are, over time. What `longhaul report asymmetry` gives.

use super::comparison::Period;
use super::scan::Bin;
use super::series::Pair;
use super::{Caveat, Finding};
use serde::{Deserialize, Serialize};

/// The two directions of paths beside each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asymmetry {
    pub schema: String,
    /// `asymmetry`.
    pub kind: String,
    pub longhaul: String,
    /// Runs of the two directions that lie farther apart are not matched.
    pub most_apart_us: u64,
    pub paths: Vec<PathAsymmetry>,
    pub caveats: Vec<Caveat>,
}

/// Which direction carries more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    ForwardFaster,
    ReverseFaster,
    /// Chance alone may explain the difference.
    NoneSeen,
    /// Too few matched runs.
    CannotTell,
}

impl Verdict {
    /// The word in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::ForwardFaster => "forward_faster",
            Verdict::ReverseFaster => "reverse_faster",
            Verdict::NoneSeen => "none_seen",
            Verdict::CannotTell => "cannot_tell",
        }
    }
}

/// One path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathAsymmetry {
    /// Forward.
    pub pair: Pair,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// In the order of time.
    pub matched: Vec<Matched>,
    /// Runs forward and in reverse that found no partner.
    pub unmatched_run_counts: [u32; 2],
    /// Forward by reverse, middle of the matched; absent: none matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ratio: Option<f64>,
    /// 95 %; absent below six.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_interval_ratio: Option<[f64; 2]>,
    /// Sign test: probability that directions alike would look as one-sided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    pub verdict: Verdict,
    /// How many matched runs have which (forward - reverse) / (forward + reverse).
    pub histogram: Vec<Bin>,
    /// Why; the likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Finding>,
}

/// A run each way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Matched {
    /// Of the forward run.
    pub at_us: i64,
    /// The reverse run's start less the forward one's.
    pub apart_us: i64,
    pub forward_bps: u64,
    pub reverse_bps: u64,
    /// Forward by reverse.
    pub forward_by_reverse_ratio: f64,
    /// (forward - reverse) / (forward + reverse).
    pub asymmetry_ratio: f64,
}
