//! Typed access to a TOML table. Problems are recorded with line, key and advice, and reading
//! continues, so that one pass finds all problems of a file.

use super::watch_file_problem::{ProblemCollector, quote_value, suggest_known};
use super::watch_toml::{WatchNode, WatchValue};
use longhaul_model::units::{Bytes, ParseUnitError, Rate, format_duration, parse_duration};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The maximum rate of an interface, link or run.
const RATE_MAX_BPS: u64 = 100_000_000_000_000;
/// The maximum size of a name, which appears in URLs, labels and file names.
const NAME_BYTES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 4096;
const LIST_MAX: usize = 10_000;

/// A table with a fixed set of keys.
#[derive(Clone)]
pub struct WatchTable<'a> {
    pub node: &'a WatchNode,
    path: String,
    pub problems: &'a ProblemCollector,
}

impl<'a> WatchTable<'a> {
    /// Returns `None` and records a problem if `node` is not a table. Unknown keys are problems.
    pub fn new(
        node: &'a WatchNode,
        at: &str,
        known: &[&str],
        found: &'a ProblemCollector,
    ) -> Option<Self> {
        let Some(entries) = node.entries() else {
            found.add(
                node.line,
                at,
                format!("{} is not a table", node.describe()),
                format!("write [{at}] and its keys below it"),
            );
            return None;
        };
        let table = WatchTable {
            node,
            path: at.to_owned(),
            problems: found,
        };
        for (key, value) in entries {
            if !known.contains(&key.as_str()) {
                let advice = suggest_known(key, known.iter().copied());
                found.add(value.line, table.key(key), "unknown key", advice);
            }
        }
        Some(table)
    }

    pub fn key(&self, key: &str) -> String {
        let key = quote_value(key).trim_matches('`').to_owned();
        if self.path.is_empty() {
            key
        } else {
            format!("{}.{key}", self.path)
        }
    }

    pub fn get(&self, key: &str) -> Option<&'a WatchNode> {
        self.node.get(key)
    }

    /// Returns the line of a key, or of the table if the key is absent.
    pub fn line(&self, key: &str) -> usize {
        self.get(key).map_or(self.node.line, |node| node.line)
    }

    pub fn add_problem(&self, key: &str, what: impl Into<String>, advice: impl Into<String>) {
        self.problems
            .add(self.line(key), self.key(key), what, advice);
    }

    /// Records a problem that quotes the value.
    pub fn reject_value(&self, key: &str, why: &str, advice: impl Into<String>) {
        let value = self.get(key).map_or_else(String::new, WatchNode::describe);
        self.add_problem(key, format!("{value} {why}"), advice);
    }

    /// Records a problem if `key` is absent. Returns whether it is present.
    pub fn require(&self, key: &str, advice: &str) -> bool {
        let has = self.get(key).is_some();
        if !has {
            self.add_problem(key, "missing", advice);
        }
        has
    }

    pub fn table(&self, key: &str, known: &[&str]) -> Option<WatchTable<'a>> {
        WatchTable::new(self.get(key)?, &self.key(key), known, self.problems)
    }

    /// Returns the tables of `[[key]]`, each labelled by its name or else its number.
    pub fn tables(&self, key: &str, known: &[&str]) -> Vec<WatchTable<'a>> {
        let Some(node) = self.get(key) else {
            return Vec::new();
        };
        match &node.value {
            WatchValue::List(list) if list.len() <= LIST_MAX => {
                let one = |(number, node)| {
                    let at = format!("{}.{}", self.key(key), label_table(node, number));
                    WatchTable::new(node, &at, known, self.problems)
                };
                list.iter().enumerate().filter_map(one).collect()
            }
            WatchValue::List(_) => {
                self.add_problem(
                    key,
                    format!("more than {LIST_MAX} entries"),
                    "split the file",
                );
                Vec::new()
            }
            _ => {
                self.reject_value(key, "is not a list of tables", format!("write [[{key}]]"));
                Vec::new()
            }
        }
    }

    pub fn text(&self, key: &str) -> Option<String> {
        let node = self.get(key)?;
        match &node.value {
            WatchValue::Text(text) if is_one_line(text) => Some(text.trim().to_owned()),
            WatchValue::Text(_) => {
                self.reject_value(key, "is not one line of text", "write one line in quotes");
                None
            }
            _ => {
                self.reject_value(key, "is not a string", "put it in quotes");
                None
            }
        }
    }

    /// Reads a name: letters, digits, `-`, `_`, `.`.
    pub fn name(&self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        if is_name(&text) {
            return Some(text);
        }
        let advice = format!("use only letters, digits, - _ . and at most {NAME_BYTES_MAX} bytes");
        self.reject_value(key, "is not a name", advice);
        None
    }

    /// Reads a list of strings; a single string is a list of one.
    pub fn text_list(&self, key: &str) -> Option<Vec<(String, usize)>> {
        let node = self.get(key)?;
        let list = match &node.value {
            WatchValue::List(list) if list.len() <= LIST_MAX => list.as_slice(),
            WatchValue::Text(_) => std::slice::from_ref(node),
            _ => {
                self.reject_value(key, "is not a list", "write [\"one\", \"two\"]");
                return None;
            }
        };
        let mut texts = Vec::with_capacity(list.len());
        for node in list {
            match &node.value {
                WatchValue::Text(text) if is_one_line(text) => {
                    texts.push((text.trim().to_owned(), node.line));
                }
                _ => {
                    let what = format!("{} is not one line of text", node.describe());
                    self.problems
                        .add(node.line, self.key(key), what, "put it in quotes");
                }
            }
        }
        Some(texts)
    }

    pub fn boolean(&self, key: &str) -> Option<bool> {
        if let WatchValue::Boolean(value) = self.get(key)?.value {
            return Some(value);
        }
        self.reject_value(key, "is neither true nor false", "write true or false");
        None
    }

    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let node = self.get(key)?;
        let value = match &node.value {
            WatchValue::Number(text) => text.replace('_', "").parse().ok(),
            _ => None,
        };
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            let advice = format!(
                "write a whole number from {} to {}",
                range.start(),
                range.end()
            );
            self.reject_value(key, "is invalid", advice);
        }
        value
    }

    pub fn number(&self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let node = self.get(key)?;
        let value = match &node.value {
            WatchValue::Number(text) => text.replace('_', "").parse::<f64>().ok(),
            _ => None,
        };
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            let advice = format!("write a number from {} to {}", range.start(), range.end());
            self.reject_value(key, "is invalid", advice);
        }
        value
    }

    /// Reads a duration with its unit, including days and weeks.
    pub fn duration(&self, key: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let value = self.quantity(key, parse_long_duration, "30 min")?;
        self.check_range(key, value, range, |it| format_long_duration(*it))
    }

    pub fn bytes(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let Bytes(value) = self.quantity(key, str::parse, "50 GB")?;
        self.check_range(key, value, range, |it| Bytes(*it).to_string())
    }

    pub fn rate(&self, key: &str) -> Option<Rate> {
        let value: Rate = self.quantity(key, str::parse, "10 Gbit/s")?;
        let range = Rate::bits_per_second(1_000)..=Rate::bits_per_second(RATE_MAX_BPS);
        self.check_range(key, value, range, Rate::to_string)
    }

    /// Reads one of several words.
    pub fn one_of<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let known = words.iter().find(|(word, _)| *word == text);
        if known.is_none() {
            let advice = suggest_known(&text, words.iter().map(|(word, _)| *word));
            self.add_problem(key, format!("unknown {key} {}", quote_value(&text)), advice);
        }
        known.map(|(_, value)| *value)
    }

    /// Reads a value with a parser whose error message says what is right.
    pub fn parse_with<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let node = self.get(key)?;
        let Some(text) = node.scalar() else {
            self.reject_value(key, "is invalid", "write a string in quotes");
            return None;
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(advice) => {
                self.reject_value(key, "is invalid", advice);
                None
            }
        }
    }

    /// Like [`WatchTable::parse_with`], but does not repeat the value, which may contain a secret.
    pub fn parse_secret<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(key)?;
        let parsed = parse(&text);
        if let Err(advice) = &parsed {
            self.add_problem(key, "the value is invalid", advice);
        }
        parsed.ok()
    }

    fn quantity<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, ParseUnitError>,
        example: &str,
    ) -> Option<T> {
        let node = self.get(key)?;
        let Some(text) = node.scalar() else {
            let advice = format!("write a quantity in quotes with its unit, such as \"{example}\"");
            self.reject_value(key, "has no unit", advice);
            return None;
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                let what = format!("is not {}", error.expected);
                self.reject_value(key, &what, format!("write for example \"{example}\""));
                None
            }
        }
    }

    fn check_range<T: PartialOrd>(
        &self,
        key: &str,
        value: T,
        range: RangeInclusive<T>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        if range.contains(&value) {
            return Some(value);
        }
        let advice = format!("allowed: {} to {}", show(range.start()), show(range.end()));
        self.reject_value(key, "is out of range", advice);
        None
    }
}

/// Returns the label of a table in a list.
fn label_table(node: &WatchNode, number: usize) -> String {
    let name = node.get("name").or_else(|| node.get("host"));
    let name = name
        .and_then(WatchNode::scalar)
        .filter(|name| is_name(name));
    name.map_or_else(|| (number + 1).to_string(), str::to_owned)
}

fn is_name(text: &str) -> bool {
    let fine = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.chars().all(fine)
}

fn is_one_line(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control)
}

/// Parses a duration, including days and weeks, which only the watch file has.
fn parse_long_duration(text: &str) -> Result<Duration, ParseUnitError> {
    let trimmed = text.trim();
    let at = trimmed
        .find(|c: char| c.is_alphabetic())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(at);
    let hours = match unit {
        "d" | "day" | "days" => 24.0,
        "w" | "week" | "weeks" => 168.0,
        _ => return parse_duration(text),
    };
    let wrong = || ParseUnitError {
        text: text.to_owned(),
        expected: "a duration: a number with ms, s, min, h, d, w",
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let seconds = number * hours * 3600.0;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Formats a long duration: `6 h`, `11 h 39 min`, `2 d`.
pub fn format_long_duration(duration: Duration) -> String {
    let minutes = duration.as_secs() / 60;
    let (days, hours, rest) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match (days, hours, rest) {
        (0, 0, m) if m < 2 => format_duration(duration),
        (0, 0, m) => format!("{m} min"),
        (0, h, 0) => format!("{h} h"),
        (0, h, m) => format!("{h} h {m} min"),
        (d, 0, _) => format!("{d} d"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}
