//! Writes a document as text of 80 columns.

use super::{Align, Document, Part, Table};
use crate::render::html::still;
use crate::render::page::{Page, WIDTH, wrap};
use crate::render::style::{CAVEAT, FAINT, STRONG, paint};

const INDENT: &str = "  ";
/// Gaps between columns; the first one that lets the table fit is used.
const GAPS: [usize; 2] = [2, 1];
/// The minimum width to which a text column is narrowed.
const LEAST: usize = 8;

pub fn write(document: &Document) -> String {
    let mut page = Page::default();
    page.heading(&seen(&document.title));
    for part in &document.parts {
        one(&mut page, part);
    }
    page.blank();
    page.hanging_in("", &seen(&document.foot), FAINT);
    page.finish()
}

fn one(page: &mut Page, part: &Part) {
    match part {
        Part::Heading(2, text) => {
            page.blank();
            page.heading(&seen(text));
        }
        Part::Heading(_, text) => {
            page.blank();
            page.line(&format!("{INDENT}{}", paint(STRONG, seen(text))));
        }
        Part::Paragraph(text) => page.hanging(INDENT, &seen(text)),
        Part::Faint(text) => page.hanging_in(INDENT, &seen(text), FAINT),
        Part::Note(text) => page.hanging_in("  ! ", &seen(text), CAVEAT),
        Part::List(items) => items
            .iter()
            .for_each(|item| page.hanging("  - ", &seen(item))),
        Part::Facts(facts) => facts.iter().for_each(|(label, value)| {
            page.labelled(&format!("{INDENT}{}", seen(label)), &seen(value));
        }),
        Part::Table(table) => rows(page, table),
        Part::Verbatim(text) => text
            .lines()
            .for_each(|line| page.line(&format!("{INDENT}{}", seen(line)))),
        Part::Drawing { .. } => {}
    }
}

/// Replaces characters that would control a terminal.
fn seen(text: &str) -> String {
    text.chars().map(|c| still(c, '?')).collect()
}

fn rows(page: &mut Page, table: &Table) {
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| row.iter().map(|cell| seen(cell)).collect())
        .collect();
    let wanted = wanted(table, &rows);
    let fits = |gap: &usize| wanted.iter().sum::<usize>() <= room(table, *gap);
    let gap = GAPS.into_iter().find(fits).unwrap_or(GAPS[1]);
    let widths = narrowed(table, wanted, room(table, gap));
    let head: Vec<String> = table.columns.iter().map(|(t, _)| (*t).to_owned()).collect();
    page.line(&paint(FAINT, line(table, &head, (&widths, gap))));
    for row in rows {
        for row in folded(table, row, &widths) {
            page.line(&line(table, &row, (&widths, gap)));
        }
    }
}

/// Splits a row into lines: the last column is wrapped if it is too wide.
fn folded(table: &Table, mut row: Vec<String>, widths: &[usize]) -> Vec<Vec<String>> {
    let of_words = matches!(table.columns.last(), Some((_, Align::Left)));
    let (Some(last), Some(width)) = (row.pop(), widths.last()) else {
        return vec![row];
    };
    if !of_words || row.len() + 1 != widths.len() || last.chars().count() <= *width {
        row.push(last);
        return vec![row];
    }
    let empty = vec![String::new(); row.len()];
    let parts = wrap(&last, *width).into_iter().zip(0..);
    parts
        .map(|(part, number)| {
            let mut line = if number == 0 {
                row.clone()
            } else {
                empty.clone()
            };
            line.push(part);
            line
        })
        .collect()
}

fn room(table: &Table, gap: usize) -> usize {
    WIDTH - INDENT.len() - gap * table.columns.len().saturating_sub(1)
}

/// Returns the width of the widest cell of each column.
fn wanted(table: &Table, rows: &[Vec<String>]) -> Vec<usize> {
    let width = |text: &str| text.chars().count();
    let columns = table.columns.iter().enumerate();
    let widest = columns.map(|(at, (title, _))| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        let widest = cells.map(|cell| width(cell)).max().unwrap_or(0);
        widest.max(width(title))
    });
    widest.collect()
}

/// Narrows the widest text columns until the table fits.
fn narrowed(table: &Table, mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    while widths.iter().sum::<usize>() > room {
        let texts = widths.iter_mut().zip(&table.columns);
        let left = texts.filter(|(width, (_, align))| *align == Align::Left && **width > LEAST);
        let Some((widest, _)) = left.max_by_key(|(width, _)| **width) else {
            break;
        };
        *widest -= 1;
    }
    widths
}

fn line(table: &Table, cells: &[String], (widths, gap): (&[usize], usize)) -> String {
    let mut line = String::from(INDENT);
    for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(&table.columns) {
        if line.len() > INDENT.len() {
            line.push_str(&" ".repeat(gap));
        }
        let cell = cut(cell, *width);
        let room = " ".repeat(width.saturating_sub(cell.chars().count()));
        let (before, after) = match align {
            Align::Left => ("", room.as_str()),
            Align::Right => (room.as_str(), ""),
        };
        line.extend([before, cell.as_str(), after]);
    }
    line.trim_end().to_owned()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}
