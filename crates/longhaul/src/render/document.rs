//! A report for people in parts, written as text of 80 columns, as Markdown or as a page of HTML.
//!
//! Parts hold plain text. Each writer makes names from elsewhere harmless in its own way: [`plain`],
//! [`markdown`], [`html`].

mod html;
mod markdown;
mod plain;

pub use crate::render::html::Align;

/// Parts of a report, in order.
#[derive(Debug, Default)]
pub struct Document {
    pub title: String,
    /// Under everything: who made it, from what.
    pub foot: String,
    pub parts: Vec<Part>,
}

#[derive(Debug)]
pub enum Part {
    /// 2 for a section, 3 for a part of one.
    Heading(u8, String),
    Paragraph(String),
    /// Second-rank detail, such as the method.
    Faint(String),
    /// A limit of what is said.
    Note(String),
    List(Vec<String>),
    Facts(Vec<(String, String)>),
    Table(Table),
    /// Lines that stay as they are.
    Verbatim(String),
    /// A picture of ours as SVG; text and Markdown leave it out.
    Drawing {
        svg: String,
        caption: String,
    },
}

#[derive(Debug, Default)]
pub struct Table {
    pub columns: Vec<(&'static str, Align)>,
    pub rows: Vec<Vec<String>>,
    /// Places of rows that stand out.
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
