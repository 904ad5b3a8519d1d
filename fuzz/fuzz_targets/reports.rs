//! Any report of v1 in all forms, and comparisons of two reports: nothing panics, nothing takes
//! long, no text steers a terminal or a browser.

#![no_main]

#[path = "../../crates/longhaul/tests/program/report_rendering.rs"]
mod report_rendering;

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use longhaul_fuzz::report_conclusions::conclude_again;
use longhaul_fuzz::report_input::read_report;
use longhaul_history::report_comparison::direction_asymmetry::compare_directions;
use longhaul_history::report_comparison::period_case::{adjust_path_changes, compare_periods};
use longhaul_history::report_comparison::run_set_comparison::{RunSet, compare_run_sets};
use longhaul_history::report_comparison::site_summary::summarize_path;
use longhaul_history::report_comparison::{ArchivedPath, ArchivedRun};
use longhaul_model::report::v1::case::CaseReport;
use longhaul_model::report::v1::{
    AnyReport, AsymmetryReport, ComparisonReport, HostPair, SiteReport, TimePeriod,
};
use longhaul_model::sanitize::is_unsafe_char;
use longhaul_report::document::ReportDocument;
use longhaul_report::run_comparison::asymmetry_document::build_asymmetry_document;
use longhaul_report::run_comparison::case_document::build_case_document;
use longhaul_report::run_comparison::comparison_document::build_comparison_document;
use longhaul_report::run_comparison::site_document::build_site_document;
use report_rendering::render_report;
use serde_json::Value;

/// The length of all forms of a report together, in bytes: far above that of any real one.
const MAX_RENDERED: usize = 64 << 20;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let Some(mut report) = read_report(&mut input) else {
        return;
    };
    check_forms(&report);
    conclude_again(&mut report, &[]);
    check_forms(&report);
    let other = read_report(&mut input).unwrap_or_else(|| report.clone());
    let times = input.arbitrary().unwrap_or([0, 60_000_000, 120_000_000, i64::MAX]);
    let reports = [report.clone(), other.clone(), report, other];
    let [a, b, c, d] = [0, 1, 2, 3].map(|number| archive_run(number, times, &reports));
    compare_sets(vec![a.clone(), b.clone()], vec![c.clone(), d.clone()]);
    compare_path(&[a, b, c, d]);
});

fn check_forms(report: &AnyReport) {
    let rendered = render_report(report);
    assert!(!rendered.texts[0].is_empty());
    check_html(&rendered.html);
    for json in [Some(&rendered.json), rendered.iperf3_json.as_ref()].into_iter().flatten() {
        serde_json::from_str::<Value>(json).expect("JSON");
    }
    let length: usize = rendered.texts.iter().map(String::len).sum();
    assert!(length + rendered.html.len() + rendered.json.len() < MAX_RENDERED);
    rendered.texts.iter().for_each(|text| check_text(text));
}

/// Colours are the only control sequences of a text, and lines of CSV end with two characters.
fn check_text(text: &str) {
    let plain = anstream::adapter::strip_str(text).to_string().replace("\r\n", "\n");
    let unsafe_char = plain.chars().find(|it| *it != '\n' && is_unsafe_char(*it));
    assert_eq!(unsafe_char, None, "{plain:?}");
}

fn check_html(html: &str) {
    assert!(html.ends_with("</html>\n"), "{}", &html[html.len().saturating_sub(80)..]);
    assert!(!html.contains("<script"), "{html}");
}

fn archive_run(number: usize, times: [i64; 4], reports: &[AnyReport; 4]) -> ArchivedRun {
    ArchivedRun {
        at_us: times[number],
        run_id: number.to_string(),
        near: "near".to_owned(),
        far: "far".to_owned(),
        report: reports[number].clone(),
    }
}

fn compare_sets(one: Vec<ArchivedRun>, other: Vec<ArchivedRun>) {
    let [mut one, mut other] = [one, other].map(|runs| RunSet { text: "a set".to_owned(), runs });
    let compared = compare_run_sets(&mut one, &mut other);
    let [a, b] = compared.sides;
    check_document(&build_comparison_document(&ComparisonReport {
        schema: String::new(),
        kind: String::from("comparison"),
        longhaul: String::new(),
        a,
        b,
        changes: compared.changes,
        caveats: compared.caveats,
    }));
}

/// Compares periods and directions of the path of these runs.
fn compare_path(runs: &[ArchivedRun]) {
    let pair = HostPair { from: "near".to_owned(), to: "far".to_owned() };
    let path = ArchivedPath::new(pair, runs, &[]);
    let period = |begin_us, end_us| TimePeriod { begin_us, end_us };
    let (before, after) = (period(i64::MIN, runs[1].at_us), period(runs[1].at_us, i64::MAX));
    let mut paths = vec![compare_periods(&path, [before, after], &[])];
    adjust_path_changes(&mut paths);
    check_document(&build_case_document(&CaseReport {
        schema: String::new(),
        kind: String::from("case"),
        longhaul: String::new(),
        before,
        after,
        event_id: None,
        paths,
        caveats: Vec::new(),
    }));
    let all = period(i64::MIN, i64::MAX);
    check_document(&build_asymmetry_document(&AsymmetryReport {
        schema: String::new(),
        kind: String::from("asymmetry"),
        longhaul: String::new(),
        most_apart_us: u64::MAX,
        paths: compare_directions(&path, all, u64::MAX).into_iter().collect(),
        caveats: Vec::new(),
    }));
    check_document(&build_site_document(&SiteReport {
        schema: String::new(),
        kind: String::from("site"),
        longhaul: String::new(),
        period: Some(all),
        paths: summarize_path(&path, all),
        caveats: Vec::new(),
    }));
}

fn check_document(document: &ReportDocument) {
    check_text(&document.text());
    check_text(&document.markdown());
    check_html(&document.html());
}
