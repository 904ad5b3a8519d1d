//! Routes of a pair over time.

use longhaul_model::report::v1::path::{ObservedHop, RouteDifference};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use utoipa::ToSchema;

/// A stretch of time in which all traces have the same route.
#[skip_serializing_none]
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
    pub change: Option<RouteDifference>,
}

/// One hop; a silent hop has no address.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RouteHop {
    pub ttl: u8,
    pub address: Option<String>,
    pub name: Option<String>,
    /// Minimum RTT of the answers, us.
    pub rtt_us: Option<f64>,
}

impl From<&ObservedHop> for RouteHop {
    fn from(hop: &ObservedHop) -> Self {
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
