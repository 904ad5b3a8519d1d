//! Values of one quantity over time, between two hosts in one direction.

use super::quantity::PathQuantity;
use serde::{Deserialize, Serialize};

/// Two hosts by their names in the watch file, in the direction of the payload.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Pair))]
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPair {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
}

/// One value of one run.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Point))]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Start of the run, since 1970-01-01T00:00:00Z.
    pub at_us: i64,
    /// In the unit of the quantity.
    pub value: f64,
}

/// All points of a time span, summarized.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Bucket))]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SeriesBucket {
    /// Start of the span.
    pub at_us: i64,
    pub duration_us: u64,
    /// Runs that gave a value.
    pub samples: u32,
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// Points, or buckets if there are more points than requested.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Series))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuantitySeries {
    pub pair: HostPair,
    pub quantity: PathQuantity,
    pub points: Vec<SeriesPoint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<SeriesBucket>,
}
