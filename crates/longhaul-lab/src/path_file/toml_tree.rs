//! A TOML document as a tree whose values know their line.

use super::path_file_error::{PathFileError, ValueOrigin};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its origin.
#[derive(Debug, Clone)]
pub(super) struct TomlNode {
    pub origin: ValueOrigin,
    pub value: TomlValue,
}

#[derive(Debug, Clone)]
pub(super) enum TomlValue {
    Text(String),
    /// The number as written: `1_000`, `0.001`; its range depends on the key.
    Number(String),
    Boolean(bool),
    List(Vec<TomlNode>),
    Table(Vec<(String, TomlNode)>),
}

impl TomlNode {
    pub(super) fn error(&self, key: &str, problem: impl Into<String>) -> PathFileError {
        PathFileError::new(self.origin.clone(), key, problem)
    }

    pub(super) fn entries(&self) -> Option<&[(String, TomlNode)]> {
        match &self.value {
            TomlValue::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value at `key`, if this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&TomlNode> {
        let (_, node) = self.entries()?.iter().find(|(name, _)| name == key)?;
        Some(node)
    }

    /// Returns the kind of value for errors: `a table`.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            TomlValue::Text(_) => "a string",
            TomlValue::Number(_) => "a number",
            TomlValue::Boolean(_) => "true or false",
            TomlValue::List(_) => "a list",
            TomlValue::Table(_) => "a table",
        }
    }

    /// Returns the scalar as text, for quantities that may be written with or without quotes.
    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.value {
            TomlValue::Text(text) | TomlValue::Number(text) => Some(text),
            _ => None,
        }
    }
}

/// Parses TOML text.
pub(super) fn parse_toml(text: &str) -> Result<TomlNode, PathFileError> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| find_line(text, span.start));
        PathFileError::new(
            ValueOrigin::Line(line),
            "",
            error.message().trim().to_owned(),
        )
    })?;
    let place = |start| ValueOrigin::Line(find_line(text, start));
    Ok(TomlNode {
        origin: ValueOrigin::File,
        value: convert_table(table.get_ref(), &place),
    })
}

/// Parses the right side of a `--set`: a TOML value, or else plain text (`1G`, `86 ms`).
pub(super) fn parse_set_value(text: &str, set: &str) -> TomlNode {
    let place = |_| ValueOrigin::Set(set.to_owned());
    let value = match DeValue::parse(text) {
        Ok(value) if !matches!(value.get_ref(), DeValue::Datetime(_)) => {
            convert_value(value.get_ref(), &place)
        }
        _ => TomlValue::Text(text.to_owned()),
    };
    TomlNode {
        origin: place(0),
        value,
    }
}

fn convert_table(table: &DeTable<'_>, place: &dyn Fn(usize) -> ValueOrigin) -> TomlValue {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        (key.clone().into_owned(), convert_spanned(value, place))
    };
    TomlValue::Table(table.iter().map(entry).collect())
}

fn convert_spanned(value: &Spanned<DeValue<'_>>, place: &dyn Fn(usize) -> ValueOrigin) -> TomlNode {
    TomlNode {
        origin: place(value.span().start),
        value: convert_value(value.get_ref(), place),
    }
}

fn convert_value(value: &DeValue<'_>, place: &dyn Fn(usize) -> ValueOrigin) -> TomlValue {
    match value {
        DeValue::String(text) => TomlValue::Text(text.clone().into_owned()),
        DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) => TomlValue::Number(value.to_string()),
            Err(_) => TomlValue::Number(number.to_string()),
        },
        DeValue::Float(number) => TomlValue::Number(number.to_string()),
        DeValue::Boolean(value) => TomlValue::Boolean(*value),
        DeValue::Datetime(moment) => TomlValue::Text(moment.to_string()),
        DeValue::Array(list) => TomlValue::List(
            list.iter()
                .map(|each| convert_spanned(each, place))
                .collect(),
        ),
        DeValue::Table(table) => convert_table(table, place),
    }
}

fn find_line(text: &str, offset: usize) -> usize {
    let before = text.char_indices().take_while(|(at, _)| *at < offset);
    1 + before.filter(|(_, c)| *c == '\n').count()
}
