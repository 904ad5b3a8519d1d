//! A report for people as a list of parts, written as text of 80 columns, as Markdown or as HTML.
//!
//! Parts hold plain text. Each writer sanitizes and escapes untrusted names: [`plain_text_writer`],
//! [`markdown_writer`], [`html_writer`].

mod html_writer;
mod markdown_writer;
mod plain_text_writer;

pub(crate) use html_writer::escape_html;

use super::number_format::format_rate;
use super::style::{CAVEAT, FAINT, STRONG};
use anstyle::Style;
use longhaul_model::report::v1::{FindingAdvice, ReportCaveat, ReportFinding, RunInfo, RunParty};
use std::collections::BTreeMap;

/// The maximum number of caveats of one kind that are shown in full.
const MAX_SAME_CAVEATS: usize = 2;
/// The prefix by which the analysis marks findings about the `reverse` half of a run.
const REVERSE_PREFIX: &str = "Other direction: ";

/// The parts of a report, in order.
#[derive(Debug, Default)]
pub struct ReportDocument {
    pub title: String,
    /// Stands beside the title, such as the time of a run.
    pub subtitle: String,
    /// The last line: the program and the source of the data.
    pub foot: String,
    pub parts: Vec<DocumentPart>,
    /// The result, its cause and the next steps, most important first: facts and actions. Text
    /// ends with the answer; Markdown and HTML begin with it.
    pub answer: Vec<DocumentPart>,
    /// Parts that are added now are details, which the brief text omits.
    pub(crate) in_details: bool,
}

/// A part of a report. The style `STRONG` marks the number to quote, `FAINT` secondary detail,
/// `CAVEAT` and `ERROR` limitations and problems.
#[derive(Debug)]
pub enum DocumentPart {
    /// A blank line.
    Gap,
    /// Level 2 for a section, 3 for a subsection.
    Heading(u8, String),
    /// A paragraph after `lead`. A lead that begins with a space or a dash makes it a list item.
    Text {
        lead: String,
        text: String,
        style: Style,
    },
    /// A label with its value; without a label, the value continues the fact above.
    Fact {
        label: String,
        value: String,
        style: Style,
    },
    /// A command to paste, which is never wrapped.
    Command(String),
    /// A command to paste with the place or the reason as its label.
    Action {
        label: String,
        command: String,
    },
    /// A part that the brief text omits.
    Detail(Box<DocumentPart>),
    Table(DocumentTable),
    /// Preformatted lines.
    Verbatim(String),
    /// A drawing of this program as SVG; text and Markdown omit it.
    Drawing {
        svg: String,
        caption: String,
    },
}

impl DocumentPart {
    /// Returns the part itself, even if it is a detail.
    fn without_detail(&self) -> &DocumentPart {
        match self {
            DocumentPart::Detail(part) => part,
            part => part,
        }
    }
}

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnAlign {
    Left,
    /// For numbers, so that their digits line up.
    Right,
}

pub type TableColumn = (String, ColumnAlign);

/// Returns a column of text.
pub fn left(title: impl Into<String>) -> TableColumn {
    (title.into(), ColumnAlign::Left)
}

/// Returns a column of numbers.
pub fn right(title: impl Into<String>) -> TableColumn {
    (title.into(), ColumnAlign::Right)
}

#[derive(Debug, Default)]
pub struct DocumentTable {
    pub columns: Vec<TableColumn>,
    pub rows: Vec<Vec<String>>,
    /// Indices of highlighted rows.
    pub marked: Vec<usize>,
    /// Texts below a row, with its index, in order.
    pub details: Vec<(usize, String)>,
}

impl DocumentTable {
    pub fn new(columns: impl IntoIterator<Item = TableColumn>) -> DocumentTable {
        DocumentTable { columns: columns.into_iter().collect(), ..DocumentTable::default() }
    }

    /// Returns a table with a line for each of `rows`, still without columns.
    pub fn from_rows<R: Copy>(rows: impl IntoIterator<Item = R>) -> ColumnwiseTable<R> {
        let rows: Vec<R> = rows.into_iter().collect();
        let lines = rows.iter().map(|_| Vec::new()).collect();
        ColumnwiseTable { rows, table: DocumentTable { rows: lines, ..DocumentTable::default() } }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a text below the last row.
    pub fn detail(&mut self, text: impl Into<String>) {
        let row = self.rows.len().saturating_sub(1);
        self.details.push((row, text.into()));
    }
}

/// A table that is filled column by column, with one line for each row of data.
pub struct ColumnwiseTable<R> {
    rows: Vec<R>,
    table: DocumentTable,
}

impl<R: Copy> ColumnwiseTable<R> {
    /// Adds a column of texts.
    #[must_use]
    pub fn text(self, title: impl Into<String>, cell: impl Fn(R) -> String) -> Self {
        self.column(left(title), cell)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn number(self, title: impl Into<String>, cell: impl Fn(R) -> String) -> Self {
        self.column(right(title), cell)
    }

    fn column(mut self, column: TableColumn, cell: impl Fn(R) -> String) -> Self {
        self.table.columns.push(column);
        for (line, row) in self.table.rows.iter_mut().zip(&self.rows) {
            line.push(cell(*row));
        }
        self
    }

    /// Highlights rows.
    #[must_use]
    pub fn mark_rows(mut self, is_marked: impl Fn(R) -> bool) -> Self {
        let rows = self.rows.iter().zip(0..).filter(|(row, _)| is_marked(**row));
        self.table.marked = rows.map(|(_, number)| number).collect();
        self
    }

    /// Adds texts below rows.
    #[must_use]
    pub fn details<T: IntoIterator<Item = String>>(mut self, texts: impl Fn(R) -> T) -> Self {
        let rows = self.rows.iter().zip(0..);
        let details =
            rows.flat_map(|(row, number)| texts(*row).into_iter().map(move |it| (number, it)));
        self.table.details = details.collect();
        self
    }

    pub fn finish(self) -> DocumentTable {
        self.table
    }
}

/// Returns an item with its lead as a sentence: `evidence: …`, `→ …`. Markdown and HTML have marks of
/// their own for items.
fn format_item(lead: &str, text: &str) -> String {
    match lead.trim() {
        "" | "-" => text.to_owned(),
        "->" => format!("→ {text}"),
        word if word.ends_with(char::is_alphabetic) => format!("{word}: {text}"),
        lead => format!("{lead} {text}"),
    }
}

impl ReportDocument {
    /// Returns the document of a run, with hosts and time as title.
    pub fn for_run(run: &RunInfo) -> ReportDocument {
        let (near, far) = (format_party(&run.initiator), format_party(&run.responder));
        ReportDocument {
            title: format!("{near} -> {far}"),
            subtitle: run.started_at.replace('T', " ").replace('Z', " UTC"),
            foot: format!("run {}, longhaul {}", run.id, run.longhaul),
            parts: describe_addresses(&run.responder).into_iter().collect(),
            ..ReportDocument::default()
        }
    }

    /// Returns a document that was generated from the archive.
    pub fn from_archive(title: impl Into<String>, longhaul: &str) -> ReportDocument {
        ReportDocument {
            title: title.into(),
            foot: format!("generated by longhaul {longhaul} from its archive"),
            ..ReportDocument::default()
        }
    }

    /// Adds details, which the brief text omits.
    pub fn details(&mut self, write: impl FnOnce(&mut ReportDocument)) {
        let outer = std::mem::replace(&mut self.in_details, true);
        write(self);
        self.in_details = outer;
    }

    fn push(&mut self, part: DocumentPart) {
        self.parts.push(if self.in_details { DocumentPart::Detail(Box::new(part)) } else { part });
    }

    /// Adds a line to the answer.
    pub fn answer(&mut self, label: impl Into<String>, value: impl Into<String>) {
        let style = if self.answer.is_empty() { STRONG } else { Style::new() };
        let part = DocumentPart::Fact { label: label.into(), value: value.into(), style };
        self.answer.push(part);
    }

    /// Adds a command to the answer.
    pub fn answer_command(&mut self, label: impl Into<String>, command: impl Into<String>) {
        let part = DocumentPart::Action { label: label.into(), command: command.into() };
        self.answer.push(part);
    }

    pub fn gap(&mut self) {
        self.push(DocumentPart::Gap);
    }

    pub fn heading(&mut self, level: u8, text: impl Into<String>) {
        self.push(DocumentPart::Heading(level, text.into()));
    }

    pub fn paragraph(&mut self, text: impl Into<String>) {
        self.styled_item("", text, Style::new());
    }

    /// Adds secondary detail, such as the method.
    pub fn faint(&mut self, text: impl Into<String>) {
        self.styled_item("", text, FAINT);
    }

    /// Adds a limitation of the statements.
    pub fn note(&mut self, text: impl Into<String>) {
        self.styled_item("note: ", text, CAVEAT);
    }

    pub fn list(&mut self, items: impl IntoIterator<Item = String>) {
        for item in items {
            self.item("- ", item);
        }
    }

    pub fn item(&mut self, lead: impl Into<String>, text: impl Into<String>) {
        self.styled_item(lead, text, Style::new());
    }

    pub fn styled_item(&mut self, lead: impl Into<String>, text: impl Into<String>, style: Style) {
        self.push(DocumentPart::Text { lead: lead.into(), text: text.into(), style });
    }

    pub fn fact(&mut self, label: impl Into<String>, value: impl Into<String>) {
        self.styled_fact(label, value, Style::new());
    }

    /// Adds the fact to quote.
    pub fn strong_fact(&mut self, label: impl Into<String>, value: impl Into<String>) {
        self.styled_fact(label, value, STRONG);
    }

    pub fn styled_fact(
        &mut self,
        label: impl Into<String>,
        value: impl Into<String>,
        style: Style,
    ) {
        self.push(DocumentPart::Fact { label: label.into(), value: value.into(), style });
    }

    /// Adds facts under one label; nothing without a value.
    pub fn facts(&mut self, label: &str, values: impl IntoIterator<Item: Into<String>>) {
        for (place, value) in values.into_iter().enumerate() {
            self.fact(if place == 0 { label } else { "" }, value);
        }
    }

    pub fn command(&mut self, command: impl Into<String>) {
        self.push(DocumentPart::Command(command.into()));
    }

    /// Adds a command to paste beside a label.
    pub fn action(&mut self, label: impl Into<String>, command: impl Into<String>) {
        self.push(DocumentPart::Action { label: label.into(), command: command.into() });
    }

    pub fn table(&mut self, table: DocumentTable) {
        self.push(DocumentPart::Table(table));
    }

    pub fn verbatim(&mut self, text: impl Into<String>) {
        self.push(DocumentPart::Verbatim(text.into()));
    }

    /// Adds drawings with their captions.
    pub fn drawings(&mut self, drawings: impl IntoIterator<Item = (String, String)>) {
        for (svg, caption) in drawings {
            self.push(DocumentPart::Drawing { svg, caption });
        }
    }

    /// Adds findings: each with the cause, the evidence, and the advice.
    pub fn findings<'f>(&mut self, findings: impl IntoIterator<Item = &'f ReportFinding>) {
        for finding in findings {
            self.gap();
            let summary = finding.summary.trim_start_matches(REVERSE_PREFIX);
            self.item("  ", format!("{}: {summary}", finding.cause));
            for support in &finding.supports {
                self.item("    evidence ", support);
            }
            for contradiction in &finding.contradicts {
                self.item("    against  ", contradiction);
            }
            for advice in &finding.advice {
                self.item("    -> ", describe_advice(advice));
                if let Some(command) = &advice.command {
                    self.command(command);
                }
            }
        }
    }

    /// Adds the caveats; many of one kind are shortened.
    pub fn caveats(&mut self, caveats: &[ReportCaveat]) {
        if !caveats.is_empty() {
            self.gap();
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for caveat in caveats {
            let count = counts.entry(&caveat.code).or_default();
            *count += 1;
            if *count <= MAX_SAME_CAVEATS {
                let text = format!("{} [{}]", caveat.text, caveat.code);
                self.styled_item("caveat: ", text, CAVEAT);
            }
        }
        for (code, count) in counts {
            if count > MAX_SAME_CAVEATS {
                let more = count - MAX_SAME_CAVEATS;
                let text = format!("{more} more [{code}]; --json lists all");
                self.styled_item("caveat: ", text, CAVEAT);
            }
        }
    }

    /// Adds findings and caveats, with which the documents of most runs end.
    #[must_use]
    pub fn conclude(mut self, findings: &[ReportFinding], caveats: &[ReportCaveat]) -> Self {
        self.details(|page| page.findings(findings));
        self.caveats(caveats);
        self
    }

    /// Returns the whole text, which ends with the answer, with the styles of a terminal.
    pub fn text(&self) -> String {
        plain_text_writer::write_plain_text(self)
    }

    /// Returns the whole text without styles.
    pub fn unstyled_text(&self) -> String {
        anstream::adapter::strip_str(&self.text()).to_string()
    }

    /// Returns a text of at most `max_lines` lines without details, which ends with the answer.
    pub fn brief_text(&self, max_lines: usize) -> String {
        plain_text_writer::write_brief_text(self, max_lines)
    }

    /// Returns the answer alone, in at most six lines.
    pub fn answer_text(&self) -> String {
        plain_text_writer::write_answer_text(self)
    }

    pub fn markdown(&self) -> String {
        markdown_writer::write_markdown(self)
    }

    pub fn html(&self) -> String {
        html_writer::write_html(self)
    }
}

/// Returns the fact about the addresses of a name, if some of them failed.
fn describe_addresses(party: &RunParty) -> Option<DocumentPart> {
    let failed = party.failed_addresses.iter().map(|it| format!("{}: {}", it.address, it.reason));
    let texts: Vec<String> = party.address.iter().cloned().chain(failed).collect();
    (!party.failed_addresses.is_empty()).then(|| DocumentPart::Fact {
        label: "address".to_owned(),
        value: texts.join("; "),
        style: Style::new(),
    })
}

/// Formats a host name, with the address if it differs.
fn format_party(party: &RunParty) -> String {
    match &party.address {
        Some(address) if *address != party.host => format!("{} ({address})", party.host),
        _ => party.host.clone(),
    }
}

/// Returns the findings about the first half of a run, or about its `reverse`.
pub fn select_findings(findings: &[ReportFinding], reverse: bool) -> Vec<&ReportFinding> {
    findings
        .iter()
        .filter(|finding| finding.summary.starts_with(REVERSE_PREFIX) == reverse)
        .collect()
}

fn describe_advice(advice: &FindingAdvice) -> String {
    let text = advice.text.trim_end_matches('.');
    let place = match advice.place.as_str() {
        "initiator" => "client",
        "responder" => "server",
        place => place,
    };
    match advice.expected_bps {
        Some(expected) => format!("{place}: {text} (expected: about {}).", format_rate(expected)),
        None => format!("{place}: {text}."),
    }
}

#[cfg(test)]
mod tests;
