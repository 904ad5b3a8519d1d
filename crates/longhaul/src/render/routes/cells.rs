//! The hour table of traces: one line per day, three columns per hour.

use crate::render::page::Page;
use crate::render::style::{FAINT, paint};
use longhaul_analysis::path::table::{Cell, Day, Table};
use longhaul_model::report::v1::path::ChangeKind;
use std::fmt::Write;

/// Widths of the day at the left, and of each hour.
const LABEL: usize = 5;
const HOUR: usize = 3;

pub fn table(page: &mut Page, table: &Table) {
    let mut hours = format!("{:LABEL$}", "UTC");
    for hour in 0..24 {
        let _ = write!(hours, " {hour:02}");
    }
    page.line(&paint(FAINT, hours));
    for day in &table.days {
        page.line(&line(day));
    }
}

fn line(day: &Day) -> String {
    // Month and day; the year is above the table.
    let label = day.date.get(5..).unwrap_or(&day.date);
    let mut text = format!("{label:LABEL$}");
    for cell in &day.hours {
        let symbol = cell.map_or_else(String::new, symbol);
        let _ = write!(text, "{symbol:>HOUR$}");
    }
    text
}

/// Formats a cell with at most three characters.
pub fn symbol(cell: Cell) -> String {
    let number = cell.number;
    let Some(kind) = cell.kind else {
        return match number {
            0..100 => format!("={number}"),
            _ => String::from("=++"),
        };
    };
    let sign = match kind {
        ChangeKind::Same => ".",
        ChangeKind::SilentHop => "*",
        ChangeKind::Stutter => "'",
        ChangeKind::LastOctet => ":",
        ChangeKind::SameAs => "a",
        ChangeKind::EndNotReached => "|",
        ChangeKind::OneHop if number > 99 => "++",
        ChangeKind::SeveralHops if number > 99 => "#++",
        ChangeKind::OneHop => return number.to_string(),
        ChangeKind::SeveralHops => return format!("#{number}"),
    };
    sign.to_owned()
}

/// Writes the meaning of the symbols; each hour shows its worst trace.
pub fn legend(page: &mut Page) {
    for line in [
        ".  same route              *  same, hops silent      :  last octet differs",
        "a  other address, same AS  '  one router stutters    |  end not reached",
        "3  one hop differs: now route 3    #3  several hops differ: now route 3",
        "=1 first trace of the path         the worst trace of each hour is shown",
    ] {
        page.line(&paint(FAINT, line));
    }
}
