//! Writes a document as a self-contained HTML page.

use super::{Document, Part};
use crate::render::html::Body;

pub fn write(document: &Document) -> String {
    let mut body = Body::default();
    body.heading(1, &document.title);
    for part in &document.parts {
        match part {
            Part::Heading(level, text) => body.heading(*level, text),
            Part::Paragraph(text) => body.paragraph(text),
            Part::Faint(text) => body.faint(text),
            Part::Note(text) => body.note(text),
            Part::List(items) => body.list(items),
            Part::Facts(facts) => body.facts(facts),
            Part::Table(table) => body.table(&table.columns, &table.rows, &table.marked),
            Part::Verbatim(text) => body.verbatim(text),
            Part::Drawing { svg, caption } => body.drawing(svg, caption),
        }
    }
    body.page(&document.title, &document.foot)
}
