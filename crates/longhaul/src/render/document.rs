//! A report for people as a list of parts, written as text of 80 columns, as Markdown or as HTML.
//!
//! Parts hold plain text. Each writer sanitizes and escapes untrusted names: [`plain`],
//! [`markdown`], [`html`].

mod html;
mod markdown;
mod plain;

pub use crate::render::html::Align;

/// The parts of a report, in order.
#[derive(Debug, Default)]
pub struct Document {
    pub title: String,
    /// The last line: the program and the source of the data.
    pub foot: String,
    pub parts: Vec<Part>,
}

#[derive(Debug)]
pub enum Part {
    /// Level 2 for a section, 3 for a subsection.
    Heading(u8, String),
    Paragraph(String),
    /// Secondary detail, such as the method.
    Faint(String),
    /// A limitation of the statements.
    Note(String),
    List(Vec<String>),
    Facts(Vec<(String, String)>),
    Table(Table),
    /// Preformatted lines.
    Verbatim(String),
    /// A drawing of this program as SVG; text and Markdown omit it.
    Drawing {
        svg: String,
        caption: String,
    },
}

#[derive(Debug, Default)]
pub struct Table {
    pub columns: Vec<(&'static str, Align)>,
    pub rows: Vec<Vec<String>>,
    /// Indices of highlighted rows.
    pub marked: Vec<usize>,
}

impl Document {
    pub fn heading(&mut self, level: u8, text: impl Into<String>) {
        self.parts.push(Part::Heading(level, text.into()));
    }

    pub fn paragraph(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Paragraph(text.into()));
    }

    pub fn faint(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Faint(text.into()));
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Note(text.into()));
    }

    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.parts.push(Part::List(items));
        }
    }

    pub fn text(&self) -> String {
        plain::write(self)
    }

    pub fn markdown(&self) -> String {
        markdown::write(self)
    }

    pub fn html(&self) -> String {
        html::write(self)
    }
}

#[cfg(test)]
mod tests;
