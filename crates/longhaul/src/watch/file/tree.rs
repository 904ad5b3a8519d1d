//! A TOML document as a tree with the line of every value.

use super::problem::Found;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The maximum number of reported syntax errors.
const SYNTAX_MAX: usize = 20;

/// A value and its line number, from 1.
#[derive(Debug, Clone)]
pub struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub enum Value {
    Text(String),
    /// As written: `1_000`, `0.001`; the allowed range depends on the key.
    Number(String),
    Boolean(bool),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Node {
    pub fn entries(&self) -> Option<&[(String, Node)]> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        let (_, node) = self.entries()?.iter().find(|(name, _)| name == key)?;
        Some(node)
    }

    /// Returns a scalar as text, because quantities may be written with or without quotes.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text),
            _ => None,
        }
    }

    /// Describes the value for a problem.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) | Value::Number(text) => super::problem::shown(text),
            Value::Boolean(value) => format!("`{value}`"),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

/// Parses TOML text; returns `None` after a syntax error.
pub fn parse(text: &str, found: &Found) -> Option<Node> {
    let lines = Lines::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(SYNTAX_MAX) {
        let line = error.span().map_or(1, |span| lines.of(span.start));
        let what = error.message().trim().replace('\n', ", ");
        found.add(line, "", what, "put the TOML of this line right");
    }
    errors.is_empty().then(|| Node {
        line: 0,
        value: from_table(table.get_ref(), &lines),
    })
}

/// Byte offsets of line starts.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines(
            std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect(),
        )
    }

    fn of(&self, offset: usize) -> usize {
        self.0.partition_point(|begin| *begin <= offset)
    }
}

fn from_table(table: &DeTable<'_>, lines: &Lines) -> Value {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        let mut node = from_spanned(value, lines);
        // A table's span may start at its first key; users look for its name.
        if matches!(node.value, Value::Table(_)) {
            node.line = lines.of(key.span().start);
        }
        (name.clone().into_owned(), node)
    };
    Value::Table(table.iter().map(entry).collect())
}

fn from_spanned(value: &Spanned<DeValue<'_>>, lines: &Lines) -> Node {
    Node {
        line: lines.of(value.span().start),
        value: from_value(value.get_ref(), lines),
    }
}

fn from_value(value: &DeValue<'_>, lines: &Lines) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) => Value::Number(value.to_string()),
            Err(_) => Value::Number(number.to_string()),
        },
        DeValue::Float(number) => Value::Number(number.to_string()),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(moment) => Value::Text(moment.to_string()),
        DeValue::Array(list) => {
            Value::List(list.iter().map(|each| from_spanned(each, lines)).collect())
        }
        DeValue::Table(table) => from_table(table, lines),
    }
}
