//! Two samples of one quantity beside each other: a change of level with its size, how sure it is,
//! and by which test. What `longhaul report compare` gives, and the rows of case reports.

use super::Caveat;
use super::event::Level;
use super::quantity::Quantity;
use super::series::Pair;
use serde::{Deserialize, Serialize};

/// What is to be said of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The second sample stands lower; chance alone would seldom do that.
    Fell,
    /// The second sample stands higher; likewise.
    Rose,
    /// Chance alone may explain the difference; the interval says how large one may hide.
    NoChangeSeen,
    /// So few values cannot tell, however far apart they lie.
    CannotTell,
    /// One of the samples has no value.
    NotMeasured,
}

impl Verdict {
    /// The word in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Fell => "fell",
            Verdict::Rose => "rose",
            Verdict::NoChangeSeen => "no_change_seen",
            Verdict::CannotTell => "cannot_tell",
            Verdict::NotMeasured => "not_measured",
        }
    }
}

/// One quantity of one pair, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub pair: Pair,
    pub quantity: Quantity,
    /// Absent: no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Level>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Level>,
    /// Later by earlier: the median ratio of all pairs of values. Of rates and round trips only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_ratio: Option<f64>,
    /// 95 %; absent: the values are too few to bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_interval_ratio: Option<[f64; 2]>,
    /// Later less earlier, in the unit of the quantity: the median difference of all pairs of values.
    /// Of shares and counts only, which may be zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference_interval: Option<[f64; 2]>,
    /// Probability that samples alike would lie as far apart, of this test by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// The same, raised for the tests of one table after Holm; the verdict goes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_adjusted: Option<f64>,
    /// `rank_sum_exact` or `rank_sum_normal`; absent: no test was possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Of neighbouring values, where it weakened the evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
    pub verdict: Verdict,
}

/// A span of time, since 1970-01-01T00:00:00Z: its begin is in it, its end is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    pub begin_us: i64,
    pub end_us: i64,
}

impl Period {
    pub fn holds(self, at_us: i64) -> bool {
        (self.begin_us..self.end_us).contains(&at_us)
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// As it was asked for.
    pub asked: String,
    /// In the order of time.
    pub run_ids: Vec<String>,
    /// From the first run's start to after the last one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}

/// What `longhaul report compare A B --json` gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub schema: String,
    /// `comparison`.
    pub kind: String,
    pub longhaul: String,
    pub a: Side,
    pub b: Side,
    /// Throughput first.
    pub changes: Vec<Change>,
    pub caveats: Vec<Caveat>,
}
