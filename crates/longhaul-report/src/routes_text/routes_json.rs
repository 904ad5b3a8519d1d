//! Traces and routes of one path as JSON, with the names of report v1.

use longhaul_analysis::path::trace_table::{DistinctRoute, TraceEntry, TraceTable};
use serde_json::{Value, json};

pub fn table_to_json(table: &TraceTable) -> Value {
    json!({
        "host": table.host,
        "routes": table.routes.iter().map(route_to_json).collect::<Vec<_>>(),
        "traces": table.traces.iter().map(trace_to_json).collect::<Vec<_>>(),
    })
}

fn route_to_json(route: &DistinctRoute) -> Value {
    json!({
        "route_number": route.number,
        "first_seen": route.first_seen,
        "last_seen": route.last_seen,
        "traces": route.traces,
        "rtt_min_ns": route.rtt_min_ns,
        "route": route.route,
    })
}

fn trace_to_json(trace: &TraceEntry) -> Value {
    json!({
        "run_id": trace.run_id,
        "at": trace.at,
        "route_number": trace.number,
        "route_change": trace.change,
        "hops": trace.hops,
        "reached": trace.reached,
        "rtt_min_ns": trace.rtt_min_ns,
    })
}
