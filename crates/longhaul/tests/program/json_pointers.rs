//! The places of values in JSON, for tests that change them.

use serde_json::Value;

/// Returns the JSON pointers of all values of this kind, containers before their contents.
pub fn find_pointers(value: &Value, is_wanted: fn(&Value) -> bool) -> Vec<String> {
    fn visit(value: &Value, pointer: &str, is_wanted: fn(&Value) -> bool, found: &mut Vec<String>) {
        if is_wanted(value) {
            found.push(pointer.to_owned());
        }
        if let Value::Array(items) = value {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{pointer}/{index}"), is_wanted, found);
            }
        }
        for (key, field) in value.as_object().into_iter().flatten() {
            let key = key.replace('~', "~0").replace('/', "~1");
            visit(field, &format!("{pointer}/{key}"), is_wanted, found);
        }
    }
    let mut found = Vec::new();
    visit(value, "", is_wanted, &mut found);
    found
}

/// Returns the names on the way to a value, without the places in lists: alike for all items of a list.
pub fn name_field(pointer: &str) -> String {
    pointer.replace(|letter: char| letter.is_ascii_digit(), "")
}
