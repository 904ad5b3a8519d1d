//! Traces over time as text: a table of hours with the symbols of SLAC's traceroute pages, the
//! numbered routes, and the changes between them.
//!
//! - [`cells`]: the table; [`list`]: routes and changes
//! - [`csv`], [`json`]: every trace for other programs

mod cells;
pub mod csv;
pub mod json;
mod list;

use super::figures::count_of;
use super::page::Page;
use longhaul_analysis::path::table::Table;
use longhaul_model::report::v1::path::ChangeKind;

/// Renders all tables with one legend.
pub fn text(tables: &[Table]) -> String {
    let mut page = Page::default();
    for table in tables {
        page.heading(&format!("Routes to {}", table.host));
        page.line(&summary(table));
        page.blank();
        cells::table(&mut page, table);
        page.blank();
    }
    cells::legend(&mut page);
    for table in tables {
        page.blank();
        list::routes(&mut page, table, tables.len() > 1);
        list::changes(&mut page, table, tables.len() > 1);
    }
    page.finish()
}

fn summary(table: &Table) -> String {
    let traces = count_of(table.traces.len() as u64, "trace");
    let routes = count_of(table.routes.len() as u64, "route");
    let ends = table.traces.first().zip(table.traces.last());
    let (from, until) = ends.map_or(("", ""), |(first, last)| (&first.at, &last.at));
    format!(
        "{traces}, {routes}, {} to {} UTC",
        minute(from),
        minute(until)
    )
}

/// Formats a time to the minute: `2003-06-11T22:45:00Z` → `2003-06-11 22:45`.
fn minute(at: &str) -> String {
    at.chars().take(16).collect::<String>().replace('T', " ")
}

/// Returns the word of the report for a kind of change.
fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Same => "same",
        ChangeKind::SilentHop => "silent_hop",
        ChangeKind::Stutter => "stutter",
        ChangeKind::LastOctet => "last_octet",
        ChangeKind::SameAs => "same_as",
        ChangeKind::OneHop => "one_hop",
        ChangeKind::SeveralHops => "several_hops",
        ChangeKind::EndNotReached => "end_not_reached",
    }
}
