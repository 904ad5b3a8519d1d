//! Reports of every kind, from bytes: the JSON of a report, or a fixture with edits.

use crate::json_edits::edit_value;
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use longhaul_model::foreign_text::ForeignDeserializer;
use longhaul_model::report::v1::{AnyReport, ReportKind};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

/// Longer lists of fixtures are cut, and those of plans most: they cost time and show nothing new.
const MAX_ITEMS: usize = 24;
const MAX_PLANNED: usize = 2;

static FIXTURES: LazyLock<Vec<Value>> = LazyLock::new(read_fixtures);

fn read_fixtures() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/reports");
    let entries = folder.read_dir().expect("the fixtures");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a fixture").path()).collect();
    files.sort();
    let read = |file| {
        let text = std::fs::read_to_string(file).expect("a fixture");
        let mut report = serde_json::from_str(&text).expect("JSON");
        cut_lists(&mut report, MAX_ITEMS);
        cut_lists(&mut report["plan"], MAX_PLANNED);
        report
    };
    files.iter().map(read).collect()
}

fn cut_lists(value: &mut Value, most: usize) {
    match value {
        Value::Array(items) => {
            items.truncate(most);
            items.iter_mut().for_each(|item| cut_lists(item, most));
        }
        Value::Object(fields) => fields.values_mut().for_each(|field| cut_lists(field, most)),
        _ => {}
    }
}

/// Reads the next report, as the archive does; `None` if it is refused.
pub fn read_report(input: &mut Unstructured<'_>) -> Option<AnyReport> {
    if input.peek_bytes(1) == Some(b"{") {
        let all = input.peek_bytes(input.len())?;
        let report = parse_report(&serde_json::from_slice(all).ok()?);
        input.bytes(all.len()).ok()?;
        return report;
    }
    let number = usize::from(u8::arbitrary(input).ok()?);
    let mut value = FIXTURES[number % FIXTURES.len()].clone();
    // At the end of the input, the report stays as it is by then.
    let _ = edit_value(&mut value, input);
    parse_report(&value)
}

/// Parses a report, with its texts sanitized.
pub fn parse_report(value: &Value) -> Option<AnyReport> {
    let kind = ReportKind::deserialize(&value["kind"]).ok()?;
    AnyReport::deserialize_kind(kind, ForeignDeserializer(value)).ok()
}
