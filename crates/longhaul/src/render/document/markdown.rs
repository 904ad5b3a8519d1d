//! Writes a document as Markdown (CommonMark with GitHub's tables), for issues and mails.

use super::{Align, Document, Part, Table};
use crate::render::html::still;
use std::fmt::{Arguments, Write};

/// Appends formatted text; writing to a string cannot fail.
fn put(text: &mut String, part: Arguments<'_>) {
    let _ = text.write_fmt(part);
}

pub fn write(document: &Document) -> String {
    let mut text = format!("# {}\n", inline(&document.title));
    for part in &document.parts {
        one(&mut text, part);
    }
    put(
        &mut text,
        format_args!("\n---\n\n{}\n", inline(&document.foot)),
    );
    text
}

fn one(text: &mut String, part: &Part) {
    match part {
        Part::Heading(level, title) => {
            let marks = "#".repeat(usize::from(*level).clamp(2, 6));
            put(text, format_args!("\n{marks} {}\n", inline(title)));
        }
        Part::Paragraph(told) | Part::Faint(told) => {
            put(text, format_args!("\n{}\n", inline(told)));
        }
        Part::Note(told) => put(text, format_args!("\n> {}\n", inline(told))),
        Part::List(items) => {
            text.push('\n');
            for item in items {
                put(text, format_args!("- {}\n", inline(item)));
            }
        }
        Part::Facts(facts) => {
            text.push('\n');
            for (label, value) in facts {
                put(
                    text,
                    format_args!("- **{}:** {}\n", inline(label), inline(value)),
                );
            }
        }
        Part::Table(table) => rows(text, table),
        Part::Verbatim(told) => {
            text.push('\n');
            for line in told.lines() {
                // Indented by four spaces, so that nothing in a line can end the block.
                let line: String = line.chars().map(seen).collect();
                put(text, format_args!("    {line}\n"));
            }
        }
        Part::Drawing { .. } => {}
    }
}

fn rows(text: &mut String, table: &Table) {
    let row = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push('\n');
    text.push_str(&row(&mut table
        .columns
        .iter()
        .map(|(title, _)| cell(title))));
    let rules = table.columns.iter().map(|(_, align)| match align {
        Align::Left => String::from(":--"),
        Align::Right => String::from("--:"),
    });
    text.push_str(&row(&mut rules.into_iter()));
    for (place, cells) in table.rows.iter().enumerate() {
        let strong = table.marked.contains(&place);
        let written = cells.iter().enumerate().map(|(at, text)| {
            let text = cell(text);
            if strong && at == 0 && !text.trim().is_empty() {
                format!("**{text}**")
            } else {
                text
            }
        });
        text.push_str(&row(&mut written.into_iter()));
    }
}

fn cell(text: &str) -> String {
    let text = itself(text);
    if text.is_empty() {
        String::from(" ")
    } else {
        text
    }
}

/// Escapes text at the start of a line as [`itself`] does, and also prevents lists, rules and
/// numbers.
pub fn inline(text: &str) -> String {
    let line = itself(text);
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
fn itself(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars().map(seen) {
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

fn seen(c: char) -> char {
    match c {
        '\n' | '\t' | '\r' => ' ',
        c => still(c, '?'),
    }
}
