//! CSV of traces (RFC 4180), one line per trace.

use crate::scan_text::scan_csv::format_optional;
use longhaul_analysis::path::trace_table::{TraceEntry, TraceTable};
use longhaul_model::report::v1::path::ChangedHops;
use longhaul_model::serde_name::name_variant;
use std::fmt::Write;

const HEADER: &str = "host,run_id,at,route_number,change,other_number,hops_here,hops_other,\
rtt_step_ns,hops,reached,rtt_min_ns";

/// Renders header and lines; an empty field is unknown or does not exist.
pub fn render_traces_csv(tables: &[TraceTable]) -> String {
    let mut text = format!("{HEADER}\r\n");
    for table in tables {
        for trace in &table.traces {
            push_trace(&mut text, &table.host, trace);
        }
    }
    text
}

fn push_trace(text: &mut String, host: &str, trace: &TraceEntry) {
    let change = trace.change.as_ref();
    let spans = |side: fn(&ChangedHops) -> Option<[u8; 2]>| {
        let ranges = change.map(|c| c.ranges.as_slice()).unwrap_or_default();
        let spans: Vec<String> = ranges.iter().map(|range| format_hop_range(side(range))).collect();
        spans.join(" ")
    };
    let _ = write!(
        text,
        "{host},{},{},{},{},{},{},{},{},{},{},{}\r\n",
        trace.run_id,
        trace.at,
        trace.number,
        format_optional(change.map(|c| name_variant(&c.kind))),
        format_optional(change.and_then(|c| c.other_number)),
        spans(|range| range.here),
        spans(|range| range.other),
        format_optional(change.and_then(|c| c.rtt_step_ns)),
        trace.hops,
        trace.reached,
        format_optional(trace.rtt_min_ns),
    );
}

/// Formats a hop range: `3-7`; `-` if the change has no hop on this side.
fn format_hop_range(range: Option<[u8; 2]>) -> String {
    range.map_or_else(|| String::from("-"), |[from, to]| format!("{from}-{to}"))
}
