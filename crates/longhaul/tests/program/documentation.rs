//! The pages that others rely on name everything that they must.

use crate::support;
use serde_json::Value;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/report-v1.md");
/// Objects whose keys are the kernel's own names, not fields of ours.
const NAMED_BY_THE_KERNEL: [&str; 3] = ["sysctl", "protocol", "interface"];

fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                found.insert(name.clone());
                let counters =
                    NAMED_BY_THE_KERNEL.contains(&name.as_str()) && inner.get("name").is_none();
                if !counters {
                    names(inner, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_the_golden_reports_is_explained() {
    let mut found = BTreeSet::new();
    for name in
        ["la-geneva-9-streams", "slac-daresbury-window", "udp-reverse", "scan-guided", "scan-grid"]
    {
        let text = support::fixture(&format!("{name}.json"));
        names(&serde_json::from_str(&text).expect("JSON"), &mut found);
    }
    assert!(found.len() > 150, "only {} names", found.len());
    let missing: Vec<_> = found
        .iter()
        .filter(|name| {
            !PAGE.contains(&format!("`{name}`")) && !PAGE.contains(&format!("\"{name}\""))
        })
        .collect();
    assert!(missing.is_empty(), "docs/report-v1.md lacks {missing:?}");
}

#[test]
fn every_word_of_limited_by_is_explained() {
    use longhaul_model::report::v1::analysis::Limiter;
    for limiter in Limiter::ALL {
        assert!(PAGE.contains(&format!("`{limiter}`")), "{limiter}");
    }
}
