//! Traces and routes of one path as JSON, with the names of report v1.

use longhaul_analysis::path::table::{Distinct, Table, Trace};
use serde_json::{Value, json};

pub fn table(table: &Table) -> Value {
    json!({
        "host": table.host,
        "routes": table.routes.iter().map(route).collect::<Vec<_>>(),
        "traces": table.traces.iter().map(trace).collect::<Vec<_>>(),
    })
}

fn route(route: &Distinct) -> Value {
    json!({
        "route_number": route.number,
        "first_seen": route.first_seen,
        "last_seen": route.last_seen,
        "traces": route.traces,
        "rtt_min_ns": route.rtt_min_ns,
        "route": route.route,
    })
}

fn trace(trace: &Trace) -> Value {
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
