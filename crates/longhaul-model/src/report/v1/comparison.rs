//! Two samples of one quantity, compared: the change of level with its size, significance and test.
//! The result of `longhaul report compare`, and the rows of case reports.

use super::ReportCaveat;
use super::event::QuantityLevel;
use super::quantity::PathQuantity;
use super::series::HostPair;
use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The conclusion about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
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

impl ChangeVerdict {
    /// Returns the word used in JSON.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// One quantity of one pair, before and after.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuantityChange {
    pub pair: HostPair,
    pub quantity: PathQuantity,
    /// Absent: no value.
    pub before: Option<QuantityLevel>,
    pub after: Option<QuantityLevel>,
    /// Later / earlier: the median ratio of all pairs of values. Only for rates and RTTs.
    pub change_ratio: Option<f64>,
    /// 95 % confidence interval; absent: too few values to bound it.
    pub change_interval_ratio: Option<[f64; 2]>,
    /// Later - earlier, in the unit of the quantity: the median difference of all pairs of values.
    /// Only for shares and counts, which may be zero.
    pub difference: Option<f64>,
    pub difference_interval: Option<[f64; 2]>,
    /// Probability of a difference this large between equal samples, for this test alone.
    pub p_value: Option<f64>,
    /// The p-value adjusted by Holm for all tests of one table; the verdict depends on it.
    pub p_adjusted: Option<f64>,
    /// `rank_sum_exact` or `rank_sum_normal`; absent: no test was possible.
    pub method: Option<String>,
    /// Autocorrelation of the values, if it weakened the evidence.
    pub correlation: Option<f64>,
    pub verdict: ChangeVerdict,
}

/// A time span since 1970-01-01T00:00:00Z, including its start and excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimePeriod {
    pub begin_us: i64,
    pub end_us: i64,
}

impl TimePeriod {
    pub fn contains(self, at_us: i64) -> bool {
        (self.begin_us..self.end_us).contains(&at_us)
    }
}

/// One side of a comparison.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonSide {
    /// As the user specified it.
    pub asked: String,
    /// In time order.
    pub run_ids: Vec<String>,
    /// From the start of the first run to just after the start of the last one.
    pub period: Option<TimePeriod>,
}

/// The output of `longhaul report compare A B --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonReport {
    pub schema: String,
    /// `comparison`.
    pub kind: String,
    pub longhaul: String,
    pub a: ComparisonSide,
    pub b: ComparisonSide,
    /// Throughput first.
    pub changes: Vec<QuantityChange>,
    pub caveats: Vec<ReportCaveat>,
}
