//! The lines of the logs of agent and server outside a terminal: logfmt or JSON, one line for each
//! event, with time (RFC 3339, UTC) and level.
//!
//! On a terminal both write text for people, which is their own.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people, on a terminal.
    Text,
    /// `time=… level=… event=… key=value … msg="…"`.
    Logfmt,
    /// One JSON object per line.
    Json,
}

/// The level of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Info,
    /// Something needs attention.
    Warn,
}

impl LogLevel {
    const fn word(self) -> &'static str {
        match self {
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
        }
    }
}

/// Returns the line of an event, as logfmt or JSON, without a line end. `fields` is a JSON object
/// with the key `event`; `text` is the event in words.
pub fn format_event_line(format: LogFormat, level: LogLevel, text: &str, fields: Value) -> String {
    let now = format!("{:.3}", Timestamp::now());
    let mut fields = match fields {
        Value::Object(fields) => fields,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    if format == LogFormat::Json {
        fields.insert("at".to_owned(), json!(now));
        fields.insert("level".to_owned(), json!(level.word()));
        return Value::Object(fields).to_string();
    }
    let mut line = format!("time={now} level={}", level.word());
    if let Some(event) = fields.remove("event") {
        push_field(&mut line, "event", &event);
    }
    let is_named = |key: &str| key == "text" || key == "event";
    for (key, value) in fields.iter().filter(|(key, value)| !is_named(key) && !value.is_null()) {
        push_field(&mut line, key, value);
    }
    push_field(&mut line, "msg", &json!(text));
    line
}

/// Adds a field. Text is quoted if it has characters other than those of plain words; lists and
/// tables are JSON in quotes.
fn push_field(line: &mut String, key: &str, value: &Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"=\\`".contains(c);
    // Writing to a string does not fail.
    let _ = if !text.is_empty() && text.chars().all(is_plain) {
        write!(line, " {key}={text}")
    } else {
        // A string of JSON is a quoted string of logfmt as well, on one line.
        write!(line, " {key}={}", json!(text))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_logfmt_however_long_its_text() {
        let text = format!("failed: {}\nsecond \"line\"", "word ".repeat(50));
        let fields =
            json!({ "event": "failed", "from": "a b", "runs": 3, "none": null, "list": [1, 2] });
        let line = format_event_line(LogFormat::Logfmt, LogLevel::Warn, &text, fields);
        assert!(!line.contains('\n'), "{line}");
        let (time, rest) = line.split_once(' ').expect("fields");
        let time = time.strip_prefix("time=").expect("the time first");
        assert!(time.parse::<Timestamp>().is_ok() && time.ends_with('Z'), "{time}");
        let begin =
            "level=warn event=failed from=\"a b\" list=[1,2] runs=3 msg=\"failed: word word ";
        assert!(rest.starts_with(begin), "{rest}");
        assert!(rest.ends_with("\\nsecond \\\"line\\\"\""), "{rest}");
    }

    #[test]
    fn an_event_as_json_has_time_and_level() {
        let line =
            format_event_line(LogFormat::Json, LogLevel::Info, "gone", json!({ "event": "note" }));
        let value: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&value["event"], &value["level"]), (&json!("note"), &json!("info")));
        assert!(value["at"].as_str().is_some_and(|it| it.parse::<Timestamp>().is_ok()));
    }
}
