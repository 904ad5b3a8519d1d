//! Routes of a pair over time.

use longhaul_analysis::path::trace_table::TraceEntry;
use longhaul_model::report::v1::path::{self, ChangedHops, RouteChangeKind};
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
    pub change: Option<RouteChange>,
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
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RouteChange {
    /// `same`, `silent_hop`, `stutter`, `last_octet`, `same_as`, `one_hop`, `several_hops`,
    /// `end_not_reached`.
    pub kind: String,
    pub other_number: Option<u32>,
    pub other_run: Option<String>,
    pub ranges: Vec<ChangedHops>,
    pub rtt_step_ns: Option<i64>,
}

impl RouteChange {
    pub fn of(trace: &TraceEntry) -> Option<RouteChange> {
        let change = trace.change.as_ref()?;
        Some(RouteChange {
            kind: format_change_kind(change.kind),
            other_number: change.other_number,
            other_run: change.other_run.clone(),
            ranges: change.ranges.clone(),
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
