//! Writes a document as a self-contained HTML page: inline style, no script, no external resources.
//!
//! All text is plain text and is escaped here, so that a name from the network is never markup. A
//! Content-Security-Policy also forbids scripts and external resources, as a second line of
//! defence. The page is readable on a screen and prints on A4 or letter.

use super::{ColumnAlign, DocumentPart, DocumentTable, ReportDocument, format_item};
use crate::style::{CAVEAT, ERROR, FAINT, STRONG};
use anstyle::Style;
use longhaul_model::sanitize::{REPLACEMENT, is_unsafe_char};
use std::fmt::Write;

/// The maximum size of one text; longer text is truncated visibly.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Tables with at most this many rows are not split across printed pages; longer ones leave no
/// single rows alone.
const MAX_SHORT_TABLE_ROWS: usize = 8;

const STYLE: &str = include_str!("html_page.css");

pub fn write_html(document: &ReportDocument) -> String {
    let mut page = HtmlText::default();
    if !document.title.is_empty() {
        page.element("h1", "", &document.title);
    }
    if !document.subtitle.is_empty() {
        page.element("p", "faint", &document.subtitle);
    }
    for part in document.answer.iter().chain(&document.parts).map(DocumentPart::without_detail) {
        page.part(part);
    }
    page.close();
    let title = if document.title.is_empty() { "longhaul" } else { &document.title };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
         form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{STYLE}</style></head>\n<body>\n{}\
         <footer>{}</footer>\n</body></html>\n",
        escape_html(title),
        page.html,
        escape_html(&document.foot),
    )
}

/// The body written so far, and the list that is still open in it.
#[derive(Default)]
struct HtmlText {
    html: String,
    open: &'static str,
}

impl HtmlText {
    fn push(&mut self, part: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.html.write_fmt(part);
    }

    /// Writes an element with a class, if it has one.
    fn element(&mut self, tag: &str, class: &str, text: &str) {
        let text = escape_html(text);
        match class {
            "" => self.push(format_args!("<{tag}>{text}</{tag}>\n")),
            _ => self.push(format_args!("<{tag} class=\"{class}\">{text}</{tag}>\n")),
        }
    }

    fn close(&mut self) {
        self.open("");
    }

    /// Opens a list unless it is open, and closes another one.
    fn open(&mut self, list: &'static str) {
        if self.open == list {
            return;
        }
        if !self.open.is_empty() {
            let open = self.open;
            self.push(format_args!("</{open}>\n"));
        }
        if !list.is_empty() {
            self.push(format_args!("<{list}>\n"));
        }
        self.open = list;
    }

    fn part(&mut self, part: &DocumentPart) {
        match part {
            DocumentPart::Fact { label, value, style } => {
                self.open("dl");
                self.element("dt", "", label);
                self.element("dd", style_class(*style), value);
            }
            DocumentPart::Action { label, command } => {
                self.open("dl");
                self.element("dt", "", label);
                self.push(format_args!("<dd><code>{}</code></dd>\n", escape_html(command)));
            }
            DocumentPart::Text { lead, text, style } if lead.starts_with([' ', '-']) => {
                self.open("ul");
                self.element("li", style_class(*style), &format_item(lead, text));
            }
            DocumentPart::Text { lead, text, style } => {
                self.close();
                self.element("p", style_class(*style), &format!("{lead}{text}"));
            }
            other => {
                self.close();
                self.block(other);
            }
        }
    }

    fn block(&mut self, part: &DocumentPart) {
        match part {
            DocumentPart::Heading(level, text) => {
                self.element(if *level == 2 { "h2" } else { "h3" }, "", text);
            }
            DocumentPart::Command(text) | DocumentPart::Verbatim(text) => {
                self.element("pre", "", text);
            }
            DocumentPart::Table(table) => self.table(table),
            DocumentPart::Drawing { svg, caption } => {
                // Drops the XML prolog, which is only valid at the start of a file.
                let svg = svg.find("<svg").map_or("", |at| &svg[at..]);
                let caption = escape_html(caption);
                self.push(format_args!(
                    "<figure>{svg}<figcaption>{caption}</figcaption></figure>\n"
                ));
            }
            _ => {}
        }
    }

    fn table(&mut self, table: &DocumentTable) {
        let class = |at: usize| match table.columns.get(at) {
            Some((_, ColumnAlign::Right)) => " class=\"n\"",
            _ => "",
        };
        let short = if table.rows.len() <= MAX_SHORT_TABLE_ROWS { " short" } else { "" };
        self.push(format_args!("<div class=\"wide{short}\"><table>\n<thead><tr>"));
        for (at, (title, _)) in table.columns.iter().enumerate() {
            self.push(format_args!("<th{}>{}</th>", class(at), escape_html(title)));
        }
        self.html.push_str("</tr></thead>\n<tbody>\n");
        for (place, row) in table.rows.iter().enumerate() {
            let mark = table.marked.contains(&place);
            self.html.push_str(if mark { "<tr class=\"mark\">" } else { "<tr>" });
            for (at, cell) in row.iter().enumerate() {
                self.push(format_args!("<td{}>{}</td>", class(at), escape_html(cell)));
            }
            self.html.push_str("</tr>\n");
            for (_, text) in table.details.iter().filter(|(row, _)| *row == place) {
                let across = table.columns.len();
                self.push(format_args!(
                    "<tr><td class=\"faint\" colspan=\"{across}\">{}</td></tr>\n",
                    escape_html(text)
                ));
            }
        }
        self.html.push_str("</tbody></table></div>\n");
    }
}

fn style_class(style: Style) -> &'static str {
    match style {
        STRONG => "strong",
        FAINT => "faint",
        CAVEAT | ERROR => "note",
        _ => "",
    }
}

/// Escapes plain text for an element or a quoted attribute. Characters that control a terminal or
/// the reading direction become U+FFFD and stay visible; newlines and tabs are kept.
pub fn escape_html(text: &str) -> String {
    let kept = text.floor_char_boundary(MAX_TEXT_BYTES);
    let mut html = String::with_capacity(kept + kept / 8);
    for c in text[..kept].chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(c),
            c if is_unsafe_char(c) => html.push(REPLACEMENT),
            c => html.push(c),
        }
    }
    if kept < text.len() {
        html.push('…');
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_page_asks_for_nothing_from_elsewhere() {
        let page = ReportDocument::default().html();
        for word in ["http:", "https:", "src=", "url(", "@import", "<script"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    proptest! {
        #[test]
        fn what_is_escaped_has_neither_markup_nor_controls(text in any::<String>()) {
            let html = escape_html(&text);
            let dangerous = |c: char| matches!(c, '<' | '>' | '"' | '\'');
            prop_assert!(!html.contains(dangerous));
            prop_assert!(html.chars().all(|c| matches!(c, '\n' | '\t') || !is_unsafe_char(c)));
            // Every ampersand starts one of the five entities.
            for part in html.split('&').skip(1) {
                let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
                prop_assert!(known.iter().any(|name| part.starts_with(name)));
            }
        }
    }
}
