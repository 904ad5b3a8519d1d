//! A report for people as a list of parts, written as text of 80 columns, as Markdown or as HTML.
//!
//! Parts hold plain text. Each writer sanitizes and escapes untrusted names: [`plain_text_writer`],
//! [`markdown_writer`], [`html_writer`].

mod html_writer;
mod markdown_writer;
mod plain_text_writer;

pub use crate::render::html_page::ColumnAlign;

/// The parts of a report, in order.
#[derive(Debug, Default)]
pub struct ReportDocument {
    pub title: String,
    /// The last line: the program and the source of the data.
    pub foot: String,
    pub parts: Vec<DocumentPart>,
}

#[derive(Debug)]
pub enum DocumentPart {
    /// Level 2 for a section, 3 for a subsection.
    Heading(u8, String),
    Paragraph(String),
    /// Secondary detail, such as the method.
    Faint(String),
    /// A limitation of the statements.
    Note(String),
    List(Vec<String>),
    Facts(Vec<(String, String)>),
    Table(DocumentTable),
    /// Preformatted lines.
    Verbatim(String),
    /// A drawing of this program as SVG; text and Markdown omit it.
    Drawing {
        svg: String,
        caption: String,
    },
}

#[derive(Debug, Default)]
pub struct DocumentTable {
    pub columns: Vec<(&'static str, ColumnAlign)>,
    pub rows: Vec<Vec<String>>,
    /// Indices of highlighted rows.
    pub marked: Vec<usize>,
}

impl ReportDocument {
    pub fn heading(&mut self, level: u8, text: impl Into<String>) {
        self.parts.push(DocumentPart::Heading(level, text.into()));
    }

    pub fn paragraph(&mut self, text: impl Into<String>) {
        self.parts.push(DocumentPart::Paragraph(text.into()));
    }

    pub fn faint(&mut self, text: impl Into<String>) {
        self.parts.push(DocumentPart::Faint(text.into()));
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.parts.push(DocumentPart::Note(text.into()));
    }

    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.parts.push(DocumentPart::List(items));
        }
    }

    pub fn text(&self) -> String {
        plain_text_writer::write_plain_text(self)
    }

    pub fn markdown(&self) -> String {
        markdown_writer::write_markdown(self)
    }

    pub fn html(&self) -> String {
        html_writer::write_html(self)
    }
}

#[cfg(test)]
mod tests;
