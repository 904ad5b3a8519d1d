//! Reports with impossible numbers: whatever a stored report contains, its conclusions are drawn
//! and every form of it is rendered within a bounded time, and without a panic.

#[path = "../../longhaul/tests/program/json_pointers.rs"]
mod json_pointers;
#[path = "support/report_conclusions.rs"]
mod report_conclusions;
#[path = "../../longhaul/tests/program/report_rendering.rs"]
mod report_rendering;

use json_pointers::{find_pointers, name_field};
use longhaul_history::report_comparison::ArchivedRun;
use longhaul_history::report_comparison::run_set_comparison::{RunSet, compare_run_sets};
use longhaul_model::report::v1::{AnyReport, ComparisonReport, ReportKind};
use longhaul_report::run_comparison::comparison_document::build_comparison_document;
use report_conclusions::conclude_again;
use report_rendering::render_report;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// No single report may take longer, even on a busy machine in a debug build.
const LIMIT: Duration = Duration::from_secs(60);
/// The number of places of one field that are changed in a report.
const PLACES: usize = 1;

/// Returns the JSON pointers of the values of this kind: of each field the first [`PLACES`].
fn first_pointers(value: &Value, is_wanted: fn(&Value) -> bool) -> Vec<String> {
    let mut found = find_pointers(value, is_wanted);
    let mut places = BTreeMap::new();
    found.retain(|pointer| {
        let count: &mut usize = places.entry(name_field(pointer)).or_default();
        *count += 1;
        *count <= PLACES
    });
    found
}

/// Returns the report with each number changed to each extreme in turn. The maximum is the greatest
/// number that the field takes.
fn change_numbers(name: &str, original: &Value) -> Vec<(String, Value)> {
    let maxima =
        [json!(u64::MAX), json!(i64::MAX), json!(u32::MAX), json!(u16::MAX), json!(u8::MAX)];
    let mut changed = Vec::new();
    for pointer in first_pointers(original, Value::is_number) {
        let mut change = |extreme: &Value| {
            let mut value = original.clone();
            *value.pointer_mut(&pointer).expect("a number") = extreme.clone();
            let fits = parse_report(&value).is_some();
            if fits {
                changed.push((format!("{name}{pointer} = {extreme}"), value));
            }
            fits
        };
        for extreme in [json!(0), json!(1), json!(-1), json!(1e308)] {
            change(&extreme);
        }
        maxima.iter().find(|maximum| change(maximum));
    }
    changed
}

fn parse_report(value: &Value) -> Option<AnyReport> {
    let kind = ReportKind::deserialize(&value["kind"]).expect("a kind");
    AnyReport::deserialize_kind(kind, value).ok()
}

/// Returns the report with each list empty in turn: series without values.
fn empty_lists(name: &str, original: &Value) -> Vec<(String, Value)> {
    let change = |pointer: String| {
        let mut value = original.clone();
        *value.pointer_mut(&pointer).expect("a list") = json!([]);
        (format!("{name}{pointer} = []"), value)
    };
    first_pointers(original, Value::is_array).into_iter().map(change).collect()
}

/// Returns false if a conclusion or a form of the report panics, or its text is empty.
fn is_rendered_or_refused(value: &Value) -> bool {
    let Some(mut report) = parse_report(value) else {
        return true;
    };
    catch_unwind(AssertUnwindSafe(|| {
        let stored = report.clone();
        conclude_again(&mut report, &[]);
        let comparison = compare_reports(&stored, &report);
        let rendered = render_report(&report);
        let is_shown = !rendered.texts[0].is_empty();
        let json = [Some(rendered.json), rendered.iperf3_json];
        let is_json = |text: &String| serde_json::from_str::<Value>(text).is_ok();
        is_shown
            && !comparison.is_empty()
            && rendered.html.contains("</html>")
            && json.iter().flatten().all(is_json)
    }))
    .is_ok_and(|is_complete| is_complete)
}

/// Returns the text of a comparison of two runs.
fn compare_reports(before: &AnyReport, after: &AnyReport) -> String {
    let set = |text: &str, report: &AnyReport| RunSet {
        text: text.to_owned(),
        runs: vec![ArchivedRun {
            at_us: 1,
            run_id: text.to_owned(),
            near: "near".to_owned(),
            far: "far".to_owned(),
            report: report.clone(),
        }],
    };
    let compared = compare_run_sets(&mut set("before", before), &mut set("after", after));
    let [a, b] = compared.sides;
    build_comparison_document(&ComparisonReport {
        schema: String::new(),
        kind: "comparison".to_owned(),
        longhaul: String::new(),
        a,
        b,
        changes: compared.changes,
        caveats: compared.caveats,
    })
    .text()
}

#[test]
fn every_form_of_a_report_with_impossible_numbers_ends_and_does_not_panic() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports");
    let mut changed = Vec::new();
    for entry in fixtures.read_dir().expect("the fixtures") {
        let file = entry.expect("a fixture").path();
        let name = file.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        let text = std::fs::read_to_string(&file).expect("a fixture");
        let original = serde_json::from_str(&text).expect("JSON");
        changed.extend(change_numbers(name, &original));
        changed.extend(empty_lists(name, &original));
    }
    println!("attack: tried {}", changed.len());
    let (results, outcomes) = mpsc::channel();
    let names: Vec<String> = changed.iter().map(|(name, _)| name.clone()).collect();
    std::thread::spawn(move || {
        for (_, value) in changed {
            if results.send(is_rendered_or_refused(&value)).is_err() {
                return;
            }
        }
    });
    let mut panics = Vec::new();
    for name in names {
        match outcomes.recv_timeout(LIMIT) {
            Ok(true) => {}
            Ok(false) => panics.push(name),
            Err(error) => panic!("{name} does not end: {error}"),
        }
    }
    assert!(panics.is_empty(), "{} panics: {panics:#?}", panics.len());
}
