//! Changes JSON values as the bytes of the fuzzer say: extreme numbers, missing and repeated parts,
//! hostile texts.

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use serde_json::{Value, json};

/// The maximum number of edits of one value.
const MAX_EDITS: u8 = 32;
/// A value with more bytes grows no further.
const MAX_BYTES: usize = 1 << 20;

/// Changes a value; stops at the end of the input.
pub fn edit_value(value: &mut Value, input: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..u8::arbitrary(input)? % (MAX_EDITS + 1) {
        let count = count_nodes(value);
        let may_grow = count_bytes(value) < MAX_BYTES;
        let place = usize::from(u16::arbitrary(input)?) % count;
        let other = usize::from(u16::arbitrary(input)?);
        let source = find_node(value, &mut (other % count)).cloned().unwrap_or_default();
        if let Some(node) = find_node(value, &mut { place }) {
            edit_node(node, other, source, may_grow, input)?;
        }
    }
    Ok(())
}

fn edit_node(
    node: &mut Value,
    other: usize,
    source: Value,
    may_grow: bool,
    input: &mut Unstructured<'_>,
) -> Result<()> {
    match (u8::arbitrary(input)? % 10, node) {
        (0 | 1, node) => *node = choose_extreme(other),
        (2, node) => *node = json!(i64::arbitrary(input)?),
        (3, node) => *node = json!(f64::arbitrary(input)?),
        (4, node) => *node = choose_text(other),
        (5, node) if may_grow => *node = source,
        (6, Value::Array(items)) if !items.is_empty() => drop(items.remove(other % items.len())),
        (6, Value::Object(fields)) => {
            let key = fields.keys().nth(other % fields.len().max(1)).cloned();
            key.and_then(|key| fields.remove(&key));
        }
        (7, Value::Array(items)) if may_grow && !items.is_empty() => {
            let item = items[other % items.len()].clone();
            let repeats = usize::from(u8::arbitrary(input)?).min(MAX_BYTES / count_bytes(&item));
            items.extend(std::iter::repeat_n(item, repeats));
        }
        (7, Value::Object(fields)) => drop(fields.insert("added".to_owned(), source)),
        (8, Value::Array(items)) => items.reverse(),
        (9, Value::Array(items)) => set_field_series(items, other, input)?,
        (_, Value::Array(items)) => items.clear(),
        (_, node) => *node = Value::Null,
    }
    Ok(())
}

/// Gives one field of all items a rising, falling or constant series of numbers.
fn set_field_series(items: &mut [Value], other: usize, input: &mut Unstructured<'_>) -> Result<()> {
    let Some(Value::Object(first)) = items.first() else {
        return Ok(());
    };
    let Some(key) = first.keys().nth(other % first.len().max(1)).cloned() else {
        return Ok(());
    };
    let (mut number, step) = (i64::arbitrary(input)?, i64::from(i32::arbitrary(input)?));
    for item in items {
        if let Some(field) = item.get_mut(&key) {
            *field = json!(number);
        }
        number = number.saturating_add(step);
    }
    Ok(())
}

fn choose_extreme(number: usize) -> Value {
    let extremes = [
        json!(0),
        json!(1),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u32::MAX),
        json!(u16::MAX),
        json!(255),
        json!(1e308),
        json!(-1e308),
        json!(5e-324),
        json!(0.5),
        json!(1e18),
        json!(true),
        json!(false),
        json!([]),
    ];
    extremes[number % extremes.len()].clone()
}

fn choose_text(number: usize) -> Value {
    let texts = [
        "",
        "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}txt\r\n",
        "<script>alert(1)</script>&\"'",
        "| a | b |\n# title `code` [link](javascript:alert(1))",
        "../../etc/passwd",
        "9999-99-99T99:99:99Z",
        "2026-11-26T22:00:00Z",
        "::1",
        "ü\u{301}\u{1f600}é",
        "tcp",
        "udp",
        "kernel",
    ];
    let text = texts.get(number % 16).map_or_else(|| "x".repeat(number), |it| (*it).to_owned());
    Value::from(text)
}

fn count_nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count_nodes).sum(),
        Value::Object(fields) => fields.values().map(count_nodes).sum(),
        _ => 0,
    }
}

/// Returns about the bytes that the value takes as JSON.
fn count_bytes(value: &Value) -> usize {
    8 + match value {
        Value::Array(items) => items.iter().map(count_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(key, it)| key.len() + count_bytes(it)).sum(),
        Value::String(text) => text.len(),
        _ => 0,
    }
}

/// Returns the node with this number, counted from the root; the number becomes what is left of it.
fn find_node<'v>(value: &'v mut Value, number: &mut usize) -> Option<&'v mut Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| find_node(item, number)),
        Value::Object(fields) => fields.values_mut().find_map(|field| find_node(field, number)),
        _ => None,
    }
}
