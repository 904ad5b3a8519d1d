//! Reports of every kind, from bytes: the JSON of a report, or a fixture with edits.

use crate::json_edits::edit_value;
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use longhaul_analysis::audit::audit_host;
use longhaul_analysis::available_bandwidth::conclude_available;
use longhaul_analysis::copy_analysis::conclude_copy;
use longhaul_analysis::imported::conclude_imported;
use longhaul_analysis::load::conclude_load;
use longhaul_analysis::path::conclude_path;
use longhaul_analysis::predict::predict_goodput;
use longhaul_analysis::scan::conclude_scan;
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::foreign_text::ForeignDeserializer;
use longhaul_model::report::v1::{AnyReport, ReportKind, ThroughputReport};
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

/// Draws the conclusions of a report again from its plan and its observation; `runs` are those of a
/// scan.
pub fn conclude_again(report: &mut AnyReport, runs: &[ThroughputReport]) {
    match report {
        AnyReport::Throughput(run) => {
            let found = conclude_throughput(&run.plan, &run.observation);
            run.analysis = found.analysis;
            (run.findings, run.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Scan(scan) => {
            let found = conclude_scan(&scan.plan, &scan.observation, runs, "grid_done");
            scan.analysis = found.analysis;
            (scan.findings, scan.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Path(path) => {
            let found = conclude_path(&path.plan, &path.observation, &[], None);
            path.analysis = found.analysis;
            (path.findings, path.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Available(available) => {
            let found = conclude_available(&available.plan, &available.observation);
            available.analysis = found.analysis;
            (available.findings, available.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Load(load) => {
            let found = conclude_load(&load.plan, &load.observation);
            load.analysis = found.analysis;
            (load.findings, load.caveats) = (found.findings, found.caveats);
        }
        AnyReport::Imported(imported) => {
            (imported.analysis, imported.caveats) = conclude_imported(&imported.observation);
        }
        AnyReport::Copy(copy) => {
            (copy.analysis, copy.findings) = conclude_copy(&copy.observation);
        }
        AnyReport::Host(host) => {
            (host.analysis, host.findings, host.caveats) =
                audit_host(&host.plan, &host.observation);
        }
        AnyReport::Predict(prediction) => {
            prediction.analysis = predict_goodput(&prediction.plan, &prediction.observation);
        }
    }
}
