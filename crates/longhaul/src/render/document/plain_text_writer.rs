//! Writes a document as text of 80 columns.

use super::{ColumnAlign, DocumentPart, DocumentTable, ReportDocument};
use crate::render::html_page::replace_control_char;
use crate::render::style::{CAVEAT, FAINT, STRONG, paint};
use crate::render::text_page::{TextPage, WIDTH, wrap_text};

const INDENT: &str = "  ";
/// Gaps between columns; the first one that lets the table fit is used.
const GAPS: [usize; 2] = [2, 1];
/// The minimum width to which a text column is narrowed.
const MIN_COLUMN_WIDTH: usize = 8;

pub fn write_plain_text(document: &ReportDocument) -> String {
    let mut page = TextPage::default();
    page.heading(&sanitize_text(&document.title));
    for part in &document.parts {
        write_part(&mut page, part);
    }
    page.blank();
    page.hanging_paragraph_styled("", &sanitize_text(&document.foot), FAINT);
    page.finish()
}

fn write_part(page: &mut TextPage, part: &DocumentPart) {
    match part {
        DocumentPart::Heading(2, text) => {
            page.blank();
            page.heading(&sanitize_text(text));
        }
        DocumentPart::Heading(_, text) => {
            page.blank();
            page.line(&format!("{INDENT}{}", paint(STRONG, sanitize_text(text))));
        }
        DocumentPart::Paragraph(text) => page.hanging_paragraph(INDENT, &sanitize_text(text)),
        DocumentPart::Faint(text) => {
            page.hanging_paragraph_styled(INDENT, &sanitize_text(text), FAINT);
        }
        DocumentPart::Note(text) => {
            page.hanging_paragraph_styled("  ! ", &sanitize_text(text), CAVEAT);
        }
        DocumentPart::List(items) => items
            .iter()
            .for_each(|item| page.hanging_paragraph("  - ", &sanitize_text(item))),
        DocumentPart::Facts(facts) => facts.iter().for_each(|(label, value)| {
            page.label_line(
                &format!("{INDENT}{}", sanitize_text(label)),
                &sanitize_text(value),
            );
        }),
        DocumentPart::Table(table) => write_table(page, table),
        DocumentPart::Verbatim(text) => text
            .lines()
            .for_each(|line| page.line(&format!("{INDENT}{}", sanitize_text(line)))),
        DocumentPart::Drawing { .. } => {}
    }
}

/// Replaces characters that would control a terminal.
fn sanitize_text(text: &str) -> String {
    text.chars().map(|c| replace_control_char(c, '?')).collect()
}

fn write_table(page: &mut TextPage, table: &DocumentTable) {
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| row.iter().map(|cell| sanitize_text(cell)).collect())
        .collect();
    let wanted = natural_widths(table, &rows);
    let fits = |gap: &usize| wanted.iter().sum::<usize>() <= available_width(table, *gap);
    let gap = GAPS.into_iter().find(fits).unwrap_or(GAPS[1]);
    let widths = shrink_widths(table, wanted, available_width(table, gap));
    let head: Vec<String> = table.columns.iter().map(|(t, _)| (*t).to_owned()).collect();
    page.line(&paint(FAINT, format_row(table, &head, (&widths, gap))));
    for row in rows {
        for row in fold_row(table, row, &widths) {
            page.line(&format_row(table, &row, (&widths, gap)));
        }
    }
}

/// Splits a row into lines: the last column is wrapped if it is too wide.
fn fold_row(table: &DocumentTable, mut row: Vec<String>, widths: &[usize]) -> Vec<Vec<String>> {
    let of_words = matches!(table.columns.last(), Some((_, ColumnAlign::Left)));
    let (Some(last), Some(width)) = (row.pop(), widths.last()) else {
        return vec![row];
    };
    if !of_words || row.len() + 1 != widths.len() || last.chars().count() <= *width {
        row.push(last);
        return vec![row];
    }
    let empty = vec![String::new(); row.len()];
    let parts = wrap_text(&last, *width).into_iter().zip(0..);
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

fn available_width(table: &DocumentTable, gap: usize) -> usize {
    WIDTH - INDENT.len() - gap * table.columns.len().saturating_sub(1)
}

/// Returns the width of the widest cell of each column.
fn natural_widths(table: &DocumentTable, rows: &[Vec<String>]) -> Vec<usize> {
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
fn shrink_widths(table: &DocumentTable, mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    while widths.iter().sum::<usize>() > room {
        let texts = widths.iter_mut().zip(&table.columns);
        let left = texts.filter(|(width, (_, align))| {
            *align == ColumnAlign::Left && **width > MIN_COLUMN_WIDTH
        });
        let Some((widest, _)) = left.max_by_key(|(width, _)| **width) else {
            break;
        };
        *widest -= 1;
    }
    widths
}

fn format_row(table: &DocumentTable, cells: &[String], (widths, gap): (&[usize], usize)) -> String {
    let mut line = String::from(INDENT);
    for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(&table.columns) {
        if line.len() > INDENT.len() {
            line.push_str(&" ".repeat(gap));
        }
        let cell = truncate_cell(cell, *width);
        let room = " ".repeat(width.saturating_sub(cell.chars().count()));
        let (before, after) = match align {
            ColumnAlign::Left => ("", room.as_str()),
            ColumnAlign::Right => (room.as_str(), ""),
        };
        line.extend([before, cell.as_str(), after]);
    }
    line.trim_end().to_owned()
}

fn truncate_cell(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}
