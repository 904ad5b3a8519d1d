//! A lasting change of one quantity of one path, and what caused it.

use super::Finding;
use super::quantity::Quantity;
use super::series::Pair;
use serde::{Deserialize, Serialize};

/// How sure the change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The last values lie beyond the usual; too few to be sure.
    Suspected,
    /// The level has changed.
    Confirmed,
    /// Suspected once, and not confirmed.
    Withdrawn,
    /// A later event brought the level back.
    Recovered,
}

impl State {
    /// The word in JSON and in the archive.
    pub const fn word(self) -> &'static str {
        match self {
            State::Suspected => "suspected",
            State::Confirmed => "confirmed",
            State::Withdrawn => "withdrawn",
            State::Recovered => "recovered",
        }
    }
}

/// Values between two changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Middle value, in the unit of the quantity.
    pub median: f64,
    /// Median distance of the values from it, in the same unit.
    pub deviation: f64,
    pub samples: u32,
}

/// One change. Its id stays when later values move its time a little.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub id: String,
    pub pair: Pair,
    pub quantity: Quantity,
    pub state: State,
    /// The change lies between the last value before it and the first one after it.
    pub between_us: [i64; 2],
    pub before: Level,
    pub after: Level,
    /// `after` by `before`; absent where `before` is zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_ratio: Option<f64>,
    /// Strength of the evidence; 1 is just enough.
    pub score: f64,
    /// Correlation of neighbouring values, which weakens the evidence.
    pub autocorrelation: f64,
    /// When the agent first said so.
    pub announced_at_us: i64,
    /// The event that brought the level back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_by: Option<String>,
    /// Causes, the likeliest first; none: no cause was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Finding>,
    /// What stayed as it was, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<String>,
    /// Other paths that changed with it, and what they share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Measurements that were made because of it, by run id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<String>,
}
