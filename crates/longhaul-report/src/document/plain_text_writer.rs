//! Writes a document as text of 80 columns.

use super::{ColumnAlign, DocumentPart, DocumentTable, ReportDocument};
use crate::style::{FAINT, STRONG, paint};
use crate::text_page::{LABEL, TextPage, WIDTH, wrap_text};
use longhaul_model::sanitize::sanitize;

/// Gaps between columns; the first one that lets the table fit is used.
const GAPS: [usize; 2] = [2, 1];
/// The minimum width to which a text column is narrowed.
const MIN_COLUMN_WIDTH: usize = 8;
/// Indent of a command that follows no text.
const COMMAND_INDENT: usize = 2;
/// The minimum width for the words of a last column, below which columns move closer.
const MIN_LAST_WIDTH: usize = 24;
/// Indent of the texts below a row.
const DETAIL_INDENT: &str = "      ";

/// The maximum number of lines of an answer.
const MAX_ANSWER_LINES: usize = 6;
/// The number of rows to which a table of the brief text is cut at most.
const MIN_TABLE_ROWS: usize = 4;

/// Writes the whole document, with details.
pub fn write_plain_text(document: &ReportDocument) -> String {
    let mut page = TextPage::default();
    write_title(&mut page, document);
    write_parts(&mut page, document.parts.iter().map(DocumentPart::without_detail), usize::MAX);
    if !document.answer.is_empty() {
        page.blank();
        write_parts(&mut page, document.answer.iter(), usize::MAX);
    }
    if !document.foot.is_empty() {
        page.blank();
        page.hanging_paragraph("", &sanitize(&document.foot), FAINT);
    }
    page.finish()
}

/// Writes title, parts other than details, and answer, in at most `max_lines` lines: tables are cut
/// first, then the text above the answer.
pub fn write_brief_text(document: &ReportDocument, max_lines: usize) -> String {
    let answer = write_answer_text(document);
    let budget = max_lines.saturating_sub(answer.lines().count() + 1);
    let write_body = |max_rows: usize| {
        let mut page = TextPage::default();
        write_title(&mut page, document);
        let parts = document.parts.iter();
        let brief = parts.filter(|part| !matches!(part, DocumentPart::Detail(_)));
        write_parts(&mut page, brief, max_rows);
        page.finish()
    };
    let fits = |text: &String| text.trim_end().lines().count() <= budget;
    let row_limits = std::iter::once(usize::MAX).chain((MIN_TABLE_ROWS..=max_lines).rev());
    let body = row_limits.map(write_body).find(fits);
    let body = body.unwrap_or_else(|| cut_lines(&write_body(MIN_TABLE_ROWS), budget));
    [body.trim_end(), answer.trim_end()].join("\n\n").trim_start().to_owned() + "\n"
}

/// Writes the answer in at most six lines. A line that does not fit is omitted, except for the
/// last one, which says where the rest is.
pub fn write_answer_text(document: &ReportDocument) -> String {
    let write = |part: &DocumentPart| {
        let mut page = TextPage::default();
        write_part(&mut page, part);
        page.finish()
    };
    let Some((last, others)) = document.answer.split_last() else {
        return String::new();
    };
    let last = write(last);
    let mut text = String::new();
    for part in others.iter().map(write) {
        if (text.lines().chain(part.lines()).chain(last.lines())).count() <= MAX_ANSWER_LINES {
            text.push_str(&part);
        }
    }
    text + &last
}

/// Cuts a text to a number of lines, the last of which says how many are missing.
fn cut_lines(text: &str, max_lines: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let kept = max_lines.saturating_sub(1).min(lines.len());
    let more = paint(FAINT, format!("{} more lines; --full shows all", lines.len() - kept));
    [&lines[..kept], &[more.as_str()]].concat().join("\n")
}

fn write_parts<'p>(
    page: &mut TextPage,
    parts: impl Iterator<Item = &'p DocumentPart>,
    max_rows: usize,
) {
    let mut indent = COMMAND_INDENT;
    for part in parts {
        match part {
            DocumentPart::Command(command) => page.command(indent, &sanitize(command)),
            DocumentPart::Table(table) => write_table(page, table, max_rows),
            part => write_part(page, part),
        }
        indent = match part {
            DocumentPart::Text { lead, .. } => lead.chars().count().max(COMMAND_INDENT),
            DocumentPart::Fact { .. } => LABEL,
            _ => indent,
        };
    }
}

/// Writes the title, with the subtitle at the right or below.
fn write_title(page: &mut TextPage, document: &ReportDocument) {
    let title = sanitize(&document.title);
    let subtitle = sanitize(&document.subtitle);
    let used = title.chars().count() + subtitle.chars().count();
    let gap = WIDTH.saturating_sub(used);
    if !subtitle.is_empty() && gap >= 2 {
        let title = paint(STRONG, &title);
        page.line(&format!("{title}{:gap$}{}", "", paint(FAINT, &subtitle)));
        return;
    }
    for (text, style) in [(title, STRONG), (subtitle, FAINT)] {
        if !text.is_empty() {
            page.hanging_paragraph("", &text, style);
        }
    }
}

fn write_part(page: &mut TextPage, part: &DocumentPart) {
    match part {
        DocumentPart::Gap => page.blank(),
        DocumentPart::Heading(_, text) => {
            page.blank();
            page.hanging_paragraph("", &sanitize(text), STRONG);
        }
        DocumentPart::Text { lead, text, style } => {
            page.hanging_paragraph(&sanitize(lead), &sanitize(text), *style);
        }
        DocumentPart::Fact { label, value, style } => {
            page.label_line_styled(&sanitize(label), &sanitize(value), *style);
        }
        DocumentPart::Action { label, command } => {
            page.label_command(&sanitize(label), &sanitize(command));
        }
        DocumentPart::Verbatim(text) => text.lines().for_each(|line| page.line(&sanitize(line))),
        // Commands and tables have writers of their own, and details are chosen before.
        DocumentPart::Command(_)
        | DocumentPart::Table(_)
        | DocumentPart::Detail(_)
        | DocumentPart::Drawing { .. } => {}
    }
}

/// Writes a table of at most `max_rows` rows: highlighted ones, and the first and last of the others.
fn write_table(page: &mut TextPage, table: &DocumentTable, max_rows: usize) {
    let hidden = table.rows.len().saturating_sub(max_rows);
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| row.iter().map(|cell| sanitize(cell).into_owned()).collect())
        .collect();
    let wanted = natural_widths(table, &rows);
    // Words of a last column may continue on the next line.
    let foldable = match (table.columns.last(), wanted.last()) {
        (Some((_, ColumnAlign::Left)), Some(last)) => last.saturating_sub(MIN_LAST_WIDTH),
        _ => 0,
    };
    let least = wanted.iter().sum::<usize>() - foldable;
    let fits = |gap: &usize| least <= available_width(table, *gap);
    let gap = GAPS.into_iter().find(fits).unwrap_or(GAPS[1]);
    let widths = shrink_widths(table, wanted, available_width(table, gap));
    let head: Vec<String> =
        table.columns.iter().map(|(title, _)| sanitize(title).into_owned()).collect();
    page.line(&paint(FAINT, format_row(table, &head, (&widths, gap))));
    let others = (0..rows.len()).filter(|place| !table.marked.contains(place));
    let others: Vec<usize> = others.collect();
    let first = max_rows.saturating_sub(table.marked.len()).div_ceil(2).min(others.len());
    let hidden = &others[first..first + hidden.min(others.len() - first)];
    for (place, row) in rows.into_iter().enumerate() {
        if hidden.first() == Some(&place) {
            page.line(&paint(FAINT, format!("{} more rows; --full shows all", hidden.len())));
        }
        if hidden.contains(&place) {
            continue;
        }
        for row in fold_row(table, row, &widths) {
            page.line(&format_row(table, &row, (&widths, gap)));
        }
        for (_, text) in table.details.iter().filter(|(row, _)| *row == place) {
            page.hanging_paragraph(DETAIL_INDENT, &sanitize(text), FAINT);
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
            let mut line = if number == 0 { row.clone() } else { empty.clone() };
            line.push(part);
            line
        })
        .collect()
}

fn available_width(table: &DocumentTable, gap: usize) -> usize {
    WIDTH - gap * table.columns.len().saturating_sub(1)
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
    let mut line = String::new();
    for (place, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if place > 0 {
            line.push_str(&" ".repeat(gap));
        }
        let cell = truncate_cell(cell, *width);
        let room = " ".repeat(width.saturating_sub(cell.chars().count()));
        let (before, after) = match table.columns[place].1 {
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
