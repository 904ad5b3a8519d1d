//! Traces over time as text: a table of hours with the symbols of SLAC's traceroute pages, the
//! numbered routes, and the changes between them.

use crate::document::ReportDocument;
use crate::number_format::{count_of, format_millis, or_absent};
use crate::path_text::path_facts::describe_change_kind;
use crate::style::FAINT;
use longhaul_analysis::path::path_format;
use longhaul_analysis::path::trace_table::{
    DistinctRoute, TraceCell, TraceDay, TraceEntry, TraceTable,
};
use longhaul_model::report::v1::path::{ObservedHop, RouteChangeKind, RouteDifference};
use std::fmt::Write;

/// Renders all tables with one legend.
pub fn build_route_document(tables: &[TraceTable]) -> ReportDocument {
    let mut page = ReportDocument::default();
    for table in tables {
        page.heading(3, format!("Routes to {}", table.host));
        page.paragraph(summarize_table(table));
        page.gap();
        write_hour_table(&mut page, table);
        page.gap();
    }
    write_legend(&mut page);
    for table in tables {
        page.gap();
        write_routes(&mut page, table, tables.len() > 1);
        write_changes(&mut page, table, tables.len() > 1);
    }
    page
}

fn summarize_table(table: &TraceTable) -> String {
    let traces = count_of(table.traces.len() as u64, "trace");
    let routes = count_of(table.routes.len() as u64, "route");
    let ends = table.traces.first().zip(table.traces.last());
    let (from, until) = ends.map_or(("", ""), |(first, last)| (&first.at, &last.at));
    format!("{traces}, {routes}, {} to {} UTC", format_minute(from), format_minute(until))
}

/// Formats a time to the minute: `2003-06-11T22:45:00Z` → `2003-06-11 22:45`.
fn format_minute(at: &str) -> String {
    at.chars().take(16).collect::<String>().replace('T', " ")
}

/// Widths of the day at the left, and of each hour.
const LABEL: usize = 5;
const HOUR: usize = 3;

fn write_hour_table(page: &mut ReportDocument, table: &TraceTable) {
    let mut hours = format!("{:LABEL$}", "UTC");
    for hour in 0..24 {
        let _ = write!(hours, " {hour:02}");
    }
    let days = table.days.iter().map(format_day);
    let lines: Vec<String> = [hours].into_iter().chain(days).collect();
    page.verbatim(lines.join("\n"));
}

fn format_day(day: &TraceDay) -> String {
    // Month and day; the year is above the table.
    let label = day.date.get(5..).unwrap_or(&day.date);
    let mut text = format!("{label:LABEL$}");
    for cell in &day.hours {
        let symbol = cell.map_or_else(String::new, format_symbol);
        let _ = write!(text, "{symbol:>HOUR$}");
    }
    text
}

/// Formats a cell with at most three characters.
fn format_symbol(cell: TraceCell) -> String {
    let number = cell.number;
    let Some(kind) = cell.kind else {
        return match number {
            0..100 => format!("={number}"),
            _ => String::from("=++"),
        };
    };
    let sign = match kind {
        RouteChangeKind::Same => ".",
        RouteChangeKind::SilentHop => "*",
        RouteChangeKind::Stutter => "'",
        RouteChangeKind::LastOctet => ":",
        RouteChangeKind::SameAs => "a",
        RouteChangeKind::EndNotReached => "|",
        RouteChangeKind::OneHop if number > 99 => "++",
        RouteChangeKind::SeveralHops if number > 99 => "#++",
        RouteChangeKind::OneHop => return number.to_string(),
        RouteChangeKind::SeveralHops => return format!("#{number}"),
    };
    sign.to_owned()
}

/// Writes the meaning of the symbols; each hour shows its worst trace.
fn write_legend(page: &mut ReportDocument) {
    page.verbatim(
        "\
.  same route              *  same, hops silent      :  last octet differs
a  other address, same AS  '  one router stutters    |  destination not reached
3  one hop differs: now route 3    #3  several hops differ: now route 3
=1 first trace of the path         the worst trace of each hour is shown",
    );
}

/// The maximum number of changes listed; the latest are shown.
const MAX_CHANGES: usize = 40;

fn write_routes(page: &mut ReportDocument, table: &TraceTable, several: bool) {
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

fn write_changes(page: &mut ReportDocument, table: &TraceTable, several: bool) {
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
