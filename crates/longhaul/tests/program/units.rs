//! Numbers read the same wherever they are shown: the table is shared with the web pages.

use longhaul_model::units::{Bytes, Rate, format_duration};
use serde_json::Value;
use std::time::Duration;

const TABLE: &str = include_str!("../../../../fixtures/units.json");

/// How one kind of quantity becomes text.
type Print = fn(u64) -> String;

#[test]
fn numbers_print_as_the_shared_table_says() {
    let table: Value = serde_json::from_str(TABLE).expect("JSON");
    let print: [(&str, Print); 3] = [
        ("rate_bps", |bps| Rate::bits_per_second(bps).to_string()),
        ("size_bytes", |bytes| Bytes(bytes).to_string()),
        ("duration_us", |us| format_duration(Duration::from_micros(us))),
    ];
    for (kind, print) in print {
        let rows = table[kind].as_array().expect("rows");
        assert!(!rows.is_empty(), "{kind}");
        for row in rows {
            let value = row[0].as_u64().expect("a number");
            assert_eq!(print(value), row[1].as_str().expect("a text"), "{kind}");
        }
    }
}
