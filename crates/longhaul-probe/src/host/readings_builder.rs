//! The readings of a host, and the reasons for missing ones, by name.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;

/// The readings of a host, collected while it is read.
#[derive(Debug, Default)]
pub(super) struct ReadingsBuilder {
    pub readings: BTreeMap<String, String>,
    pub unread: BTreeMap<String, String>,
}

impl ReadingsBuilder {
    pub fn put(&mut self, name: &str, value: impl Display) {
        self.readings.insert(name.to_owned(), value.to_string());
    }

    /// Adds a value if there is one; its absence has no meaning.
    pub fn put_optional(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Adds a value that should be present, or `why` it is missing.
    pub fn put_or_missing(&mut self, name: &str, value: Option<impl Display>, why: &str) {
        match value {
            Some(value) => self.put(name, value),
            None => self.missing(name, why),
        }
    }

    pub fn missing(&mut self, name: &str, why: impl Into<String>) {
        self.unread.insert(name.to_owned(), why.into());
    }

    /// Adds a value, or the error as the reason why it is missing.
    pub fn put_result(&mut self, name: &str, value: io::Result<impl Display>) {
        if let Some(value) = self.check(name, value) {
            self.put(name, value);
        }
    }

    /// Returns a value, or records the error as the reason why `name` is missing.
    pub fn check<T>(&mut self, name: &str, value: io::Result<T>) -> Option<T> {
        value.map_err(|error| self.missing(name, error_text(&error))).ok()
    }
}

pub(super) fn switch_text(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Returns the system's text for an error, without its number.
pub(super) fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    if error.kind() == io::ErrorKind::Unsupported {
        return format!("the driver does not report it ({words})");
    }
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_has_its_reason() {
        let mut notes = ReadingsBuilder::default();
        notes.put_result("a.tx", Err::<u32, _>(io::Error::from_raw_os_error(95)));
        notes.put_result("b", Ok(7));
        assert_eq!(notes.readings.get("b").map(String::as_str), Some("7"));
        assert_eq!(notes.unread.len(), 1);
        let expect = "the driver does not report it (Operation not supported)";
        assert_eq!(notes.unread["a.tx"], expect);
    }
}
