//! The list of numbered routes, and of the changes between them.

use super::format_minute;
use crate::document::ReportDocument;
use crate::number_format::{count_of, format_millis, or_absent};
use crate::path_text::path_facts::describe_change_kind;
use crate::style::FAINT;
use longhaul_analysis::path::path_format;
use longhaul_analysis::path::trace_table::{DistinctRoute, TraceEntry, TraceTable};
use longhaul_model::report::v1::path::{ObservedHop, RouteChangeKind, RouteDifference};

/// The maximum number of changes listed; the latest are shown.
const MAX_CHANGES: usize = 40;

pub fn write_routes(page: &mut ReportDocument, table: &TraceTable, several: bool) {
    page.heading(3, format_title("ROUTES", table, several));
    for route in &table.routes {
        write_route_head(page, route);
        let hops: Vec<String> = route.route.hops.iter().map(format_hop).collect();
        page.item("    ", hops.join(" "));
    }
}

fn format_title(word: &str, table: &TraceTable, several: bool) -> String {
    if several { format!("{word} to {}", table.host) } else { word.to_owned() }
}

fn write_route_head(page: &mut ReportDocument, route: &DistinctRoute) {
    let hops = count_of(route.route.hops.len() as u64, "hop");
    let floor = or_absent(route.rtt_min_ns, |ns| format!("{} ms", format_millis(ns / 1000)));
    let open = if route.route.reached { "" } else { ", destination not reached" };
    let traces = count_of(u64::from(route.traces), "trace");
    page.item(format!("{:<3} ", route.number), format!("{hops}{open}, min RTT {floor}, {traces}"));
    let (first, last) = (format_minute(&route.first_seen), format_minute(&route.last_seen));
    page.styled_item("    ", format!("first seen {first}, last {last}"), FAINT);
}

/// Formats a hop without a space, so that lines never break inside it: `3:192.0.2.1`, `4:*`.
fn format_hop(hop: &ObservedHop) -> String {
    let address = hop.answers.first().map_or("*", |a| a.address.as_str());
    format!("{}:{address}", hop.ttl)
}

pub fn write_changes(page: &mut ReportDocument, table: &TraceTable, several: bool) {
    let changed: Vec<(&TraceEntry, &RouteDifference)> = table
        .traces
        .iter()
        .filter_map(|trace| Some((trace, trace.change.as_ref()?)))
        .filter(|(_, change)| change.kind > RouteChangeKind::SilentHop)
        .collect();
    if changed.is_empty() {
        return;
    }
    page.gap();
    page.heading(3, format_title("CHANGES", table, several));
    let left_out = changed.len().saturating_sub(MAX_CHANGES);
    if left_out > 0 {
        page.paragraph(format!("({left_out} earlier changes omitted; --json lists all)"));
    }
    for (trace, change) in &changed[left_out..] {
        let first = format!("{}  ", format_minute(&trace.at));
        page.item(&first, describe_change(trace, change));
    }
}

fn describe_change(trace: &TraceEntry, change: &RouteDifference) -> String {
    let other = or_absent(change.other_number, |n| n.to_string());
    let mut parts =
        vec![format!("{other} -> {}: {}", trace.number, describe_change_kind(change.kind))];
    parts.extend(change.ranges.iter().map(path_format::format_hop_change));
    parts.extend(change.rtt_step_ns.and_then(describe_rtt_step));
    parts.join("; ")
}

/// Describes an RTT step, if it exceeds the scatter of a trace.
fn describe_rtt_step(ns: i64) -> Option<String> {
    let sign = if ns < 0 { "-" } else { "+" };
    let told = format!("RTT {sign}{}", path_format::format_delay(ns));
    (ns.unsigned_abs() >= path_format::MIN_STEP_NS).then_some(told)
}
