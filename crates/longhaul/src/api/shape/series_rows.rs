//! Pairs and their values over time.

use longhaul_analysis::path::trace_table::TraceEntry;
use longhaul_model::report::v1::path::{self, ChangedHops, RouteChangeKind};
use longhaul_model::report::v1::{quantity, series};
use longhaul_store::history_store;
use serde::Serialize;
use utoipa::ToSchema;

/// Two hosts by their names in the watch file, in the direction of the payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Pair {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
}

impl From<series::HostPair> for Pair {
    fn from(pair: series::HostPair) -> Self {
        Pair {
            from: pair.from,
            to: pair.to,
        }
    }
}

/// The quantity of a series: `goodput`, `available`, `capacity` in bit/s; `rtt_floor` in us;
/// `loss`, `retransmits` as ratios; `hops` as a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    Goodput,
    Available,
    Capacity,
    RttFloor,
    Loss,
    Retransmits,
    Hops,
}

impl From<quantity::PathQuantity> for Quantity {
    fn from(quantity: quantity::PathQuantity) -> Self {
        match quantity {
            quantity::PathQuantity::Goodput => Quantity::Goodput,
            quantity::PathQuantity::Available => Quantity::Available,
            quantity::PathQuantity::Capacity => Quantity::Capacity,
            quantity::PathQuantity::RttFloor => Quantity::RttFloor,
            quantity::PathQuantity::Loss => Quantity::Loss,
            quantity::PathQuantity::Retransmits => Quantity::Retransmits,
            quantity::PathQuantity::Hops => Quantity::Hops,
        }
    }
}

/// A pair in the grid.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct GridCell {
    pub pair: Pair,
    /// The newest value, in the unit of the quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Start of the run with this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_us: Option<i64>,
    /// Median of the hourly medians of the last seven days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_7d: Option<f64>,
    /// Suspected or confirmed events of this quantity that have not recovered.
    pub open_events: u32,
}

impl From<history_store::GridPair> for GridCell {
    fn from(cell: history_store::GridPair) -> Self {
        GridCell {
            pair: cell.pair.into(),
            value: cell.newest.map(|point| point.value),
            at_us: cell.newest.map(|point| point.at_us),
            median_7d: cell.weekly_median,
            open_events: cell.open_events,
        }
    }
}

/// One value of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Point {
    /// Start of the run.
    pub at_us: i64,
    pub value: f64,
}

/// Values of a time span, aggregated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Bucket {
    /// Start of the span.
    pub at_us: i64,
    pub duration_us: u64,
    /// The number of runs with a value.
    pub samples: u32,
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// Points, or buckets if there are more points than requested.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Series {
    pub pair: Pair,
    pub quantity: Quantity,
    pub points: Vec<Point>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub buckets: Vec<Bucket>,
}

impl From<series::QuantitySeries> for Series {
    fn from(series: series::QuantitySeries) -> Self {
        let point = |point: series::SeriesPoint| Point {
            at_us: point.at_us,
            value: point.value,
        };
        let bucket = |bucket: series::SeriesBucket| Bucket {
            at_us: bucket.at_us,
            duration_us: bucket.duration_us,
            samples: bucket.samples,
            min: bucket.min,
            median: bucket.median,
            max: bucket.max,
        };
        Series {
            pair: series.pair.into(),
            quantity: series.quantity.into(),
            points: series.points.into_iter().map(point).collect(),
            buckets: series.buckets.into_iter().map(bucket).collect(),
        }
    }
}

/// A stretch of time in which all traces have the same route.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RouteRow {
    /// Start of the first run with this route.
    pub at_us: i64,
    /// Start of the last run with this route.
    pub until_us: i64,
    /// The number of traces that were read; not all are read for a long range.
    pub traces: u32,
    /// The number of this route among those of its pair.
    pub number: u32,
    /// The first run with this route.
    pub run_id: String,
    pub hops: Vec<RouteHop>,
    /// The difference from the previous route; absent for the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<RouteChange>,
}

/// One hop; a silent hop has no address.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RouteHop {
    pub ttl: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Minimum RTT of the answers, us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<f64>,
}

impl From<&path::ObservedHop> for RouteHop {
    fn from(hop: &path::ObservedHop) -> Self {
        let answer = hop.answers.first();
        let least = answer.and_then(|answer| answer.rtts_ns.iter().min());
        RouteHop {
            ttl: hop.ttl,
            address: answer.map(|answer| answer.address.clone()),
            name: answer.and_then(|answer| answer.name.clone()),
            rtt_us: least.map(|ns| *ns as f64 / 1e3),
        }
    }
}

/// The difference of a route from the previous one, in the format of report v1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RouteChange {
    /// `same`, `silent_hop`, `stutter`, `last_octet`, `same_as`, `one_hop`, `several_hops`,
    /// `end_not_reached`.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_run: Option<String>,
    pub ranges: Vec<HopRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_step_ns: Option<i64>,
}

/// First and last TTL of the hops that differ; absent if this side has no such hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct HopRange {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 2, max_items = 2)]
    pub here: Option<[u8; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 2, max_items = 2)]
    pub other: Option<[u8; 2]>,
}

impl RouteChange {
    pub fn of(trace: &TraceEntry) -> Option<RouteChange> {
        let change = trace.change.as_ref()?;
        let range = |range: &ChangedHops| HopRange {
            here: range.here,
            other: range.other,
        };
        Some(RouteChange {
            kind: format_change_kind(change.kind),
            other_number: change.other_number,
            other_run: change.other_run.clone(),
            ranges: change.ranges.iter().map(range).collect(),
            rtt_step_ns: change.rtt_step_ns,
        })
    }
}

/// Returns the word of report v1.
fn format_change_kind(kind: RouteChangeKind) -> String {
    let word = serde_json::to_value(kind).ok();
    let word = word.as_ref().and_then(serde_json::Value::as_str);
    word.unwrap_or_default().to_owned()
}
