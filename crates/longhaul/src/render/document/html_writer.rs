//! Writes a document as a self-contained HTML page.

use super::{DocumentPart, ReportDocument};
use crate::render::html_page::HtmlBody;

pub fn write_html(document: &ReportDocument) -> String {
    let mut body = HtmlBody::default();
    body.heading(1, &document.title);
    for part in &document.parts {
        match part {
            DocumentPart::Heading(level, text) => body.heading(*level, text),
            DocumentPart::Paragraph(text) => body.paragraph(text),
            DocumentPart::Faint(text) => body.faint(text),
            DocumentPart::Note(text) => body.note(text),
            DocumentPart::List(items) => body.list(items),
            DocumentPart::Facts(facts) => body.facts(facts),
            DocumentPart::Table(table) => body.table(&table.columns, &table.rows, &table.marked),
            DocumentPart::Verbatim(text) => body.verbatim(text),
            DocumentPart::Drawing { svg, caption } => body.drawing(svg, caption),
        }
    }
    body.page(&document.title, &document.foot)
}
