//! Writes a document as Markdown (CommonMark with GitHub's tables), for issues and mails.

use super::{ColumnAlign, DocumentPart, DocumentTable, ReportDocument, format_item};
use crate::style::{CAVEAT, ERROR, STRONG};
use longhaul_model::sanitize::{REPLACEMENT, is_unsafe_char};
use std::fmt::{Arguments, Write};

/// Appends formatted text; writing to a string cannot fail.
fn push_formatted(text: &mut String, part: Arguments<'_>) {
    let _ = text.write_fmt(part);
}

pub fn write_markdown(document: &ReportDocument) -> String {
    let mut text = format!("# {}\n", escape_line(&document.title));
    if !document.subtitle.is_empty() {
        push_formatted(&mut text, format_args!("\n{}\n", escape_line(&document.subtitle)));
    }
    let mut in_list = false;
    for part in document.answer.iter().chain(&document.parts).map(DocumentPart::without_detail) {
        let item = format_list_item(part);
        if let Some(item) = &item {
            let before = if in_list { "" } else { "\n" };
            push_formatted(&mut text, format_args!("{before}{item}\n"));
        } else {
            write_part(&mut text, part);
        }
        in_list = item.is_some();
    }
    if !document.foot.is_empty() {
        push_formatted(&mut text, format_args!("\n---\n\n{}\n", escape_line(&document.foot)));
    }
    text
}

/// Formats facts and items of a list; other parts are not in lists.
fn format_list_item(part: &DocumentPart) -> Option<String> {
    match part {
        DocumentPart::Fact { label, value, .. } if label.is_empty() => {
            Some(format!("  - {}", escape_line(value)))
        }
        DocumentPart::Fact { label, value, style } => {
            let (label, value) = (escape_line(label), escape_line(value));
            Some(match *style {
                STRONG => format!("- **{label}:** **{value}**"),
                _ => format!("- **{label}:** {value}"),
            })
        }
        DocumentPart::Text { lead, text, .. } if lead.starts_with([' ', '-']) => {
            Some(format!("- {}", escape_line(&format_item(lead, text))))
        }
        _ => None,
    }
}

fn write_part(text: &mut String, part: &DocumentPart) {
    match part {
        DocumentPart::Heading(level, title) => {
            let marks = "#".repeat(usize::from(*level).clamp(2, 6));
            push_formatted(text, format_args!("\n{marks} {}\n", escape_line(title)));
        }
        DocumentPart::Text { lead, text: told, style } => {
            let mark = if matches!(*style, CAVEAT | ERROR) { "> " } else { "" };
            let line = escape_line(&format!("{lead}{told}"));
            push_formatted(text, format_args!("\n{mark}{line}\n"));
        }
        DocumentPart::Action { label, command } => {
            push_formatted(text, format_args!("\n**{}:**\n", escape_line(label)));
            write_part(text, &DocumentPart::Command(command.clone()));
        }
        DocumentPart::Table(table) => write_table(text, table),
        DocumentPart::Verbatim(told) | DocumentPart::Command(told) => {
            text.push('\n');
            for line in told.lines() {
                // Indented by four spaces, so that nothing in a line can end the block.
                let line: String = line.chars().map(sanitize_char).collect();
                push_formatted(text, format_args!("    {line}\n"));
            }
        }
        _ => {}
    }
}

fn write_table(text: &mut String, table: &DocumentTable) {
    let row = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push('\n');
    text.push_str(&row(&mut table.columns.iter().map(|(title, _)| escape_cell(title))));
    let rules = table.columns.iter().map(|(_, align)| match align {
        ColumnAlign::Left => String::from(":--"),
        ColumnAlign::Right => String::from("--:"),
    });
    text.push_str(&row(&mut rules.into_iter()));
    for (place, cells) in table.rows.iter().enumerate() {
        let strong = table.marked.contains(&place);
        let written = cells.iter().enumerate().map(|(at, text)| {
            let text = escape_cell(text);
            if strong && at == 0 && !text.trim().is_empty() { format!("**{text}**") } else { text }
        });
        text.push_str(&row(&mut written.into_iter()));
        for (_, detail) in table.details.iter().filter(|(row, _)| *row == place) {
            push_formatted(text, format_args!("| {} |\n", escape_cell(detail)));
        }
    }
}

fn escape_cell(text: &str) -> String {
    let text = escape_markup(text);
    if text.is_empty() { String::from(" ") } else { text }
}

/// Escapes text at the start of a line as [`escape_markup`] does, and also prevents lists, rules and
/// numbers.
pub fn escape_line(text: &str) -> String {
    let line = escape_markup(text);
    match line.chars().next() {
        Some('-' | '+' | '=') => format!("\\{line}"),
        Some(c) if c.is_ascii_digit() => {
            let past = |c: char| !c.is_ascii_digit();
            let (number, rest) = line.split_at(line.find(past).unwrap_or(line.len()));
            match rest.as_bytes() {
                [b'.' | b')', b' ', ..] => format!("{number}\\{rest}"),
                _ => line,
            }
        }
        _ => line,
    }
}

/// Escapes text on one line, so that it contains no markup, link or mention.
fn escape_markup(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars().map(sanitize_char) {
        match c {
            '<' => line.push_str("&lt;"),
            '>' => line.push_str("&gt;"),
            '&' => line.push_str("&amp;"),
            // Prevents mentions and automatic links.
            '@' => line.push_str("&#64;"),
            '/' if line.ends_with(':') => line.push_str("&#47;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '!' | '~' | '$' => {
                line.push('\\');
                line.push(c);
            }
            c => line.push(c),
        }
    }
    line.replace("www.", "www&#46;")
}

fn sanitize_char(c: char) -> char {
    match c {
        '\n' | '\t' | '\r' => ' ',
        c if is_unsafe_char(c) => REPLACEMENT,
        c => c,
    }
}
