//! The hour table of traces: one line per day, three columns per hour.

use crate::document::ReportDocument;
use longhaul_analysis::path::trace_table::{TraceCell, TraceDay, TraceTable};
use longhaul_model::report::v1::path::RouteChangeKind;
use std::fmt::Write;

/// Widths of the day at the left, and of each hour.
const LABEL: usize = 5;
const HOUR: usize = 3;

pub fn write_hour_table(page: &mut ReportDocument, table: &TraceTable) {
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
pub fn format_symbol(cell: TraceCell) -> String {
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
pub fn write_legend(page: &mut ReportDocument) {
    page.verbatim(
        "\
.  same route              *  same, hops silent      :  last octet differs
a  other address, same AS  '  one router stutters    |  destination not reached
3  one hop differs: now route 3    #3  several hops differ: now route 3
=1 first trace of the path         the worst trace of each hour is shown",
    );
}
