//! Traces over time as text: a table of hours with the symbols of SLAC's traceroute pages, the
//! numbered routes, and the changes between them.
//!
//! - [`hour_table`]: the table; [`route_list`]: routes and changes

mod hour_table;
mod route_list;

use crate::document::ReportDocument;
use crate::number_format::count_of;
use longhaul_analysis::path::trace_table::TraceTable;

/// Renders all tables with one legend.
pub fn build_route_document(tables: &[TraceTable]) -> ReportDocument {
    let mut page = ReportDocument::default();
    for table in tables {
        page.heading(3, format!("Routes to {}", table.host));
        page.paragraph(summarize_table(table));
        page.gap();
        hour_table::write_hour_table(&mut page, table);
        page.gap();
    }
    hour_table::write_legend(&mut page);
    for table in tables {
        page.gap();
        route_list::write_routes(&mut page, table, tables.len() > 1);
        route_list::write_changes(&mut page, table, tables.len() > 1);
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
