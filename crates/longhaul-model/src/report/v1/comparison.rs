//! Two samples of one quantity, compared: the change of level with its size, significance and test.
//! The result of `longhaul report compare`, and the rows of case reports.

use super::Caveat;
use super::event::Level;
use super::quantity::Quantity;
use super::series::Pair;
use serde::{Deserialize, Serialize};

/// The conclusion about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The second sample is lower; chance alone would rarely cause this.
    Fell,
    /// The second sample is higher; chance alone would rarely cause this.
    Rose,
    /// The difference may be due to chance; the interval bounds the change that may be hidden.
    NoChangeSeen,
    /// Too few values for a conclusion, however far apart they are.
    CannotTell,
    /// One of the samples has no value.
    NotMeasured,
}

impl Verdict {
    /// Returns the word used in JSON.
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
    /// Later / earlier: the median ratio of all pairs of values. Only for rates and RTTs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_ratio: Option<f64>,
    /// 95 % confidence interval; absent: too few values to bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_interval_ratio: Option<[f64; 2]>,
    /// Later - earlier, in the unit of the quantity: the median difference of all pairs of values.
    /// Only for shares and counts, which may be zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference_interval: Option<[f64; 2]>,
    /// Probability of a difference this large between equal samples, for this test alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// The p-value adjusted by Holm for all tests of one table; the verdict depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_adjusted: Option<f64>,
    /// `rank_sum_exact` or `rank_sum_normal`; absent: no test was possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Autocorrelation of the values, if it weakened the evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
    pub verdict: Verdict,
}

/// A time span since 1970-01-01T00:00:00Z, including its start and excluding its end.
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
    /// As the user specified it.
    pub asked: String,
    /// In time order.
    pub run_ids: Vec<String>,
    /// From the start of the first run to just after the start of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}

/// The output of `longhaul report compare A B --json`.
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
