//! A TOML document as a tree whose values know their line.

use super::error::{PathFileError, Place};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its origin.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub place: Place,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    /// The number as written: `1_000`, `0.001`; its range depends on the key.
    Number(String),
    Boolean(bool),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Node {
    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>) -> PathFileError {
        PathFileError::new(self.place.clone(), key, problem)
    }

    pub(super) fn entries(&self) -> Option<&[(String, Node)]> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value at `key`, if this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let (_, node) = self.entries()?.iter().find(|(name, _)| name == key)?;
        Some(node)
    }

    /// Returns the kind of value for errors: `a table`.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Number(_) => "a number",
            Value::Boolean(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// Returns the scalar as text, for quantities that may be written with or without quotes.
    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text),
            _ => None,
        }
    }
}

/// Parses TOML text.
pub(super) fn parse(text: &str) -> Result<Node, PathFileError> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        PathFileError::new(Place::Line(line), "", error.message().trim().to_owned())
    })?;
    let place = |start| Place::Line(line_of(text, start));
    Ok(Node {
        place: Place::File,
        value: from_table(table.get_ref(), &place),
    })
}

/// Parses the right side of a `--set`: a TOML value, or else plain text (`1G`, `86 ms`).
pub(super) fn parse_set_value(text: &str, set: &str) -> Node {
    let place = |_| Place::Set(set.to_owned());
    let value = match DeValue::parse(text) {
        Ok(value) if !matches!(value.get_ref(), DeValue::Datetime(_)) => {
            from_value(value.get_ref(), &place)
        }
        _ => Value::Text(text.to_owned()),
    };
    Node {
        place: place(0),
        value,
    }
}

fn from_table(table: &DeTable<'_>, place: &dyn Fn(usize) -> Place) -> Value {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        (key.clone().into_owned(), from_spanned(value, place))
    };
    Value::Table(table.iter().map(entry).collect())
}

fn from_spanned(value: &Spanned<DeValue<'_>>, place: &dyn Fn(usize) -> Place) -> Node {
    Node {
        place: place(value.span().start),
        value: from_value(value.get_ref(), place),
    }
}

fn from_value(value: &DeValue<'_>, place: &dyn Fn(usize) -> Place) -> Value {
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
            Value::List(list.iter().map(|each| from_spanned(each, place)).collect())
        }
        DeValue::Table(table) => from_table(table, place),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.char_indices().take_while(|(at, _)| *at < offset);
    1 + before.filter(|(_, c)| *c == '\n').count()
}
