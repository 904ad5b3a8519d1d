//! A lasting change of one quantity of one path, and what caused it.

use super::ReportFinding;
use super::quantity::PathQuantity;
use super::series::HostPair;
use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The state of an event.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = State))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// The last values are outside the usual range, but too few for certainty.
    Suspected,
    /// The level has changed.
    Confirmed,
    /// A suspicion that was not confirmed.
    Withdrawn,
    /// A later event brought the level back.
    Recovered,
}

impl EventState {
    /// Returns the word used in JSON and in the archive.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// Values between two changes.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Level))]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantityLevel {
    /// Median, in the unit of the quantity.
    pub median: f64,
    /// Median absolute deviation from the median, in the same unit.
    pub deviation: f64,
    pub samples: u32,
}

/// One change. Its id is stable when later values shift its time a little.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Event))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeEvent {
    pub id: String,
    pub pair: HostPair,
    pub quantity: PathQuantity,
    pub state: EventState,
    /// The change lies between the last value before it and the first one after it.
    #[cfg_attr(feature = "schema", schema(min_items = 2, max_items = 2))]
    pub between_us: [i64; 2],
    pub before: QuantityLevel,
    pub after: QuantityLevel,
    /// `after` / `before`; absent if `before` is zero.
    pub change_ratio: Option<f64>,
    /// Strength of the evidence; the threshold is 1.
    pub score: f64,
    /// Autocorrelation of the values, which weakens the evidence.
    pub autocorrelation: f64,
    /// Time of the agent's first announcement.
    pub announced_at_us: i64,
    /// The event that brought the level back.
    pub recovered_by: Option<String>,
    /// Causes, the most likely first; empty: no cause was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<ReportFinding>,
    /// Sentences about what did not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<String>,
    /// Other paths that changed at the same time, and what they share.
    pub scope: Option<String>,
    /// Run ids of follow-up measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<String>,
}
