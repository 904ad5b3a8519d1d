//! Typed reads from a table of the tree, whose errors name the key.

use super::path_file_error::{PathFileError, find_nearest_word};
use super::toml_tree::{TomlNode, TomlValue};
use longhaul_model::units::{Bytes, Rate, parse_duration};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The maximum delay, jitter or lateness of a path.
const DURATION_MAX: Duration = Duration::from_secs(60);
/// The maximum rate in bit/s; above it the nanosecond clock of the engine lacks resolution.
const RATE_MAX: u64 = 1_000_000_000_000;
const SYSCTL_BYTES_MAX: usize = 1024;

/// A table with known keys, looked up in layers; the first layer with a key wins. So a direction
/// overrides its hop, and an event overrides both.
pub(super) struct TypedTable<'a> {
    layers: Vec<&'a TomlNode>,
    /// The dotted path of the table; empty for the whole file.
    path: String,
}

impl<'a> TypedTable<'a> {
    /// # Errors
    /// `node` is not a table, or has a key that is not in `known`.
    pub(super) fn new(node: &'a TomlNode, at: &str, known: &[&str]) -> Result<Self, PathFileError> {
        check_keys(node, at, known)?;
        Ok(TypedTable {
            layers: vec![node],
            path: at.to_owned(),
        })
    }

    /// Creates a table from layers that were already checked.
    pub(super) fn layered(layers: Vec<&'a TomlNode>, at: &str) -> Self {
        TypedTable {
            layers,
            path: at.to_owned(),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a TomlNode> {
        self.layers.iter().find_map(|layer| layer.get(key))
    }

    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() {
            return key.to_owned();
        }
        format!("{}.{key}", self.path)
    }

    pub(super) fn required(&self, key: &str) -> Result<&'a TomlNode, PathFileError> {
        self.get(key).ok_or_else(|| self.missing(key))
    }

    pub(super) fn missing(&self, key: &str) -> PathFileError {
        self.layers[0].error(&self.key(key), "missing")
    }

    /// Returns all entries of a table whose keys are names.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a TomlNode)> {
        let entries = self.layers.iter().filter_map(|layer| layer.entries());
        entries.flatten().map(|(key, node)| (key.as_str(), node))
    }

    /// Returns the table at `key`, and checks its keys if `known` is given.
    pub(super) fn table(
        &self,
        key: &str,
        known: Option<&[&str]>,
    ) -> Result<Option<TypedTable<'a>>, PathFileError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let at = self.key(key);
        match known {
            Some(known) => TypedTable::new(node, &at, known).map(Some),
            None if node.entries().is_some() => Ok(Some(TypedTable::layered(vec![node], &at))),
            None => Err(mismatch_error(node, &at, "a table")),
        }
    }

    /// Like [`TypedTable::table`], but the text `none` means that it is absent.
    pub(super) fn table_or_none(
        &self,
        key: &str,
        known: &[&str],
    ) -> Result<Option<TypedTable<'a>>, PathFileError> {
        if self.is_none(key) {
            return Ok(None);
        }
        self.table(key, Some(known))
    }

    fn is_none(&self, key: &str) -> bool {
        self.get(key).and_then(TomlNode::scalar) == Some("none")
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, PathFileError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        match &node.value {
            TomlValue::Text(text)
                if !text.trim().is_empty() && !text.contains(char::is_control) =>
            {
                Ok(Some(text.trim().to_owned()))
            }
            TomlValue::Text(_) => Err(mismatch_error(node, &self.key(key), "one line of text")),
            _ => Err(mismatch_error(node, &self.key(key), "a string")),
        }
    }

    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>, PathFileError> {
        match self.get(key) {
            None => Ok(None),
            Some(node) => match node.value {
                TomlValue::Boolean(value) => Ok(Some(value)),
                _ => Err(mismatch_error(node, &self.key(key), "true or false")),
            },
        }
    }

    pub(super) fn integer(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, PathFileError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        let value = node
            .scalar()
            .and_then(|text| text.replace('_', "").parse().ok());
        match value.filter(|value| range.contains(value)) {
            Some(value) => Ok(Some(value)),
            None => Err(mismatch_error(node, &self.key(key), &allowed)),
        }
    }

    pub(super) fn duration(&self, key: &str) -> Result<Option<Duration>, PathFileError> {
        let value = self.quantity(key, parse_duration)?;
        match value.filter(|value| *value > DURATION_MAX) {
            Some(_) => Err(self.refuse(key, "longer than the 60 s allowed")),
            None => Ok(value),
        }
    }

    pub(super) fn rate(&self, key: &str) -> Result<Option<Rate>, PathFileError> {
        if self.is_none(key) {
            return Ok(None);
        }
        let value = self.quantity(key, str::parse::<Rate>)?;
        match value.filter(|rate| rate.as_bps() == 0 || rate.as_bps() > RATE_MAX) {
            Some(_) => Err(self
                .refuse(key, "out of range")
                .allowing("1 bit/s to 1 Tbit/s, or `none` for no limit")),
            None => Ok(value),
        }
    }

    pub(super) fn bytes(&self, key: &str) -> Result<Option<Bytes>, PathFileError> {
        self.quantity(key, str::parse::<Bytes>)
    }

    /// Reads a value with a unit; a bare number is in the base unit.
    pub(super) fn quantity<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, longhaul_model::units::ParseUnitError>,
    ) -> Result<Option<T>, PathFileError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let Some(text) = node.scalar() else {
            return Err(mismatch_error(
                node,
                &self.key(key),
                "a quantity in quotes with its unit",
            ));
        };
        match parse(text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(node.error(&self.key(key), error.to_string())),
        }
    }

    /// Reads a share from 0 to 1: `0.001` or `"0.1 %"`.
    pub(super) fn share(&self, key: &str) -> Result<Option<f64>, PathFileError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let parsed = node.scalar().and_then(|text| match text.strip_suffix('%') {
            Some(percent) => Some(percent.trim().parse::<f64>().ok()? / 100.0),
            None => text.replace('_', "").trim().parse::<f64>().ok(),
        });
        match parsed.filter(|share| (0.0..=1.0).contains(share)) {
            Some(share) => Ok(Some(share)),
            None => Err(mismatch_error(
                node,
                &self.key(key),
                "a share: 0 to 1, or \"0.1 %\"",
            )),
        }
    }

    /// Reads sysctls by dotted name; `net.core.rmem_max` may be quoted or written as nested keys.
    pub(super) fn sysctls(&self, key: &str) -> Result<BTreeMap<String, String>, PathFileError> {
        let mut found = BTreeMap::new();
        if let Some(table) = self.table(key, None)? {
            for (name, node) in table.entries() {
                collect_sysctls(name, node, &table.path, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Returns an error at the value of `key`.
    pub(super) fn refuse(&self, key: &str, problem: &str) -> PathFileError {
        let node = self.get(key).unwrap_or(self.layers[0]);
        let shown = node
            .scalar()
            .map_or(String::new(), |text| format!("`{text}` is "));
        node.error(&self.key(key), format!("{shown}{problem}"))
    }
}

fn collect_sysctls(
    name: &str,
    node: &TomlNode,
    at: &str,
    found: &mut BTreeMap<String, String>,
) -> Result<(), PathFileError> {
    if let Some(entries) = node.entries() {
        return entries.iter().try_for_each(|(key, node)| {
            collect_sysctls(&format!("{name}.{key}"), node, at, found)
        });
    }
    let key = format!("{at}.{name}");
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // Only `net.`: a path file must not change any other setting of the machine.
    if !name.starts_with("net.") || !name.chars().all(legal) || name.split('.').any(str::is_empty) {
        return Err(node
            .error(&key, "not the name of a network sysctl")
            .allowing("names such as net.ipv4.tcp_rmem"));
    }
    let value = node.scalar().filter(|text| {
        text.len() <= SYSCTL_BYTES_MAX
            && !text.trim().is_empty()
            && !text.contains(char::is_control)
    });
    let value = value.ok_or_else(|| mismatch_error(node, &key, "a number or a line of text"))?;
    found.insert(name.to_owned(), value.trim().to_owned());
    Ok(())
}

pub(super) fn mismatch_error(node: &TomlNode, key: &str, allowed: &str) -> PathFileError {
    let shown = node.scalar().map_or_else(
        || format!("{} is not allowed here", node.kind()),
        |text| format!("`{text}` is not allowed here"),
    );
    node.error(key, shown).allowing(allowed)
}

/// # Errors
/// `node` is not a table, or has a key that is not in `known`.
pub(super) fn check_keys(node: &TomlNode, at: &str, known: &[&str]) -> Result<(), PathFileError> {
    let entries = node
        .entries()
        .ok_or_else(|| mismatch_error(node, at, "a table"))?;
    for (key, value) in entries {
        if known.contains(&key.as_str()) {
            continue;
        }
        let full = if at.is_empty() {
            key.clone()
        } else {
            format!("{at}.{key}")
        };
        let problem = match find_nearest_word(key, known) {
            Some(meant) => format!("unknown key; did you mean `{meant}`?"),
            None => "unknown key".to_owned(),
        };
        return Err(value.error(&full, problem).allowing(known.join(", ")));
    }
    Ok(())
}
