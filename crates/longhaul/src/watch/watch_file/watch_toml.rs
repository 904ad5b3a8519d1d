//! A TOML document as a tree with the line of every value.

use super::watch_file_problem::ProblemCollector;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The maximum number of reported syntax errors.
const MAX_SYNTAX_ERRORS: usize = 20;

/// A value and its line number, from 1.
#[derive(Debug, Clone)]
pub struct WatchNode {
    pub line: usize,
    pub value: WatchValue,
}

#[derive(Debug, Clone)]
pub enum WatchValue {
    Text(String),
    /// As written: `1_000`, `0.001`; the allowed range depends on the key.
    Number(String),
    Boolean(bool),
    List(Vec<WatchNode>),
    Table(Vec<(String, WatchNode)>),
}

impl WatchNode {
    pub fn entries(&self) -> Option<&[(String, WatchNode)]> {
        match &self.value {
            WatchValue::Table(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&WatchNode> {
        let (_, node) = self.entries()?.iter().find(|(name, _)| name == key)?;
        Some(node)
    }

    /// Returns a scalar as text, because quantities may be written with or without quotes.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            WatchValue::Text(text) | WatchValue::Number(text) => Some(text),
            _ => None,
        }
    }

    /// Describes the value for a problem.
    pub fn describe(&self) -> String {
        match &self.value {
            WatchValue::Text(text) | WatchValue::Number(text) => {
                super::watch_file_problem::quote_value(text)
            }
            WatchValue::Boolean(value) => format!("`{value}`"),
            WatchValue::List(_) => "a list".to_owned(),
            WatchValue::Table(_) => "a table".to_owned(),
        }
    }
}

/// Parses TOML text; returns `None` after a syntax error.
pub fn parse_toml(text: &str, found: &ProblemCollector) -> Option<WatchNode> {
    let lines = LineStarts::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
        let line = error.span().map_or(1, |span| lines.line_at(span.start));
        let what = error.message().trim().replace('\n', ", ");
        found.add(line, "", what, "correct the TOML syntax of this line");
    }
    errors.is_empty().then(|| WatchNode {
        line: 0,
        value: convert_table(table.get_ref(), &lines),
    })
}

/// Byte offsets of line starts.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        LineStarts(
            std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect(),
        )
    }

    fn line_at(&self, offset: usize) -> usize {
        self.0.partition_point(|begin| *begin <= offset)
    }
}

fn convert_table(table: &DeTable<'_>, lines: &LineStarts) -> WatchValue {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        let mut node = convert_spanned(value, lines);
        // A table's span may start at its first key; users look for its name.
        if matches!(node.value, WatchValue::Table(_)) {
            node.line = lines.line_at(key.span().start);
        }
        (name.clone().into_owned(), node)
    };
    WatchValue::Table(table.iter().map(entry).collect())
}

fn convert_spanned(value: &Spanned<DeValue<'_>>, lines: &LineStarts) -> WatchNode {
    WatchNode {
        line: lines.line_at(value.span().start),
        value: convert_value(value.get_ref(), lines),
    }
}

fn convert_value(value: &DeValue<'_>, lines: &LineStarts) -> WatchValue {
    match value {
        DeValue::String(text) => WatchValue::Text(text.clone().into_owned()),
        DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) => WatchValue::Number(value.to_string()),
            Err(_) => WatchValue::Number(number.to_string()),
        },
        DeValue::Float(number) => WatchValue::Number(number.to_string()),
        DeValue::Boolean(value) => WatchValue::Boolean(*value),
        DeValue::Datetime(moment) => WatchValue::Text(moment.to_string()),
        DeValue::Array(list) => WatchValue::List(
            list.iter()
                .map(|each| convert_spanned(each, lines))
                .collect(),
        ),
        DeValue::Table(table) => convert_table(table, lines),
    }
}
