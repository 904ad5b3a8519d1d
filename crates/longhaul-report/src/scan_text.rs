//! A scan as text: the recommendation, its benefit, and every probe.
//!
//! - [`scan_advice`]: the recommended setting, compared with others, and the required host settings
//! - [`probe_table`]: the probes of a guided search; [`grid_tables`]: the cells of a grid
//! - [`scan_asymmetry`]: comparison of the directions
//! - [`scan_csv`]: one CSV line per probe; [`setting_format`]: formatting of settings

mod grid_tables;
mod probe_table;
mod scan_advice;
mod scan_asymmetry;
pub mod scan_csv;
pub mod setting_format;

use crate::document::ReportDocument;
use crate::number_format::{count_of, format_grouped};
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{ScanConclusion, SearchMode};

/// Renders the report, from the recommendation to the caveats.
pub fn build_scan_document(report: &ScanReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    page.fact("scan", summarize_scan(report));
    page.fact("stopped", describe_stop(report));
    for conclusion in &report.analysis.directions {
        page.gap();
        write_direction(&mut page, report, conclusion);
    }
    if let Some(asymmetry) = &report.analysis.asymmetry {
        page.gap();
        scan_asymmetry::write_asymmetry(&mut page, asymmetry);
    }
    page.conclude(&report.findings, &report.caveats)
}

fn write_direction(page: &mut ReportDocument, report: &ScanReport, conclusion: &ScanConclusion) {
    if report.plan.direction == RunDirection::Both {
        page.heading(
            3,
            if conclusion.forward { "FORWARD: client sends" } else { "REVERSE: server sends" },
        );
    }
    scan_advice::write_recommendation(page, &report.run.responder.host, conclusion);
    match report.plan.search {
        SearchMode::Guided => {
            probe_table::write_probe_table(page, &report.observation.cells, conclusion);
        }
        SearchMode::Grid => grid_tables::write_grid(page, &report.observation.cells, conclusion),
    }
    scan_advice::write_needs(page, conclusion);
}

/// Summarizes kind, direction and size of the scan.
fn summarize_scan(report: &ScanReport) -> String {
    let way = match report.plan.direction {
        RunDirection::Forward => "forward (client sends)",
        RunDirection::Reverse => "reverse (server sends)",
        RunDirection::Both => "both directions, one after the other",
    };
    let analysis = &report.analysis;
    let run = count_of(u64::from(analysis.probes_run), "probe");
    let span = setting_format::format_span(report.run.duration_us);
    match report.plan.search {
        SearchMode::Guided => format!(
            "guided, {way}: {run} in {span}, instead of a grid of {}",
            format_grouped(u64::from(analysis.grid_cells))
        ),
        SearchMode::Grid => {
            let cells = count_of(u64::from(analysis.grid_cells), "cell");
            format!("grid of {cells}, {way}: {run} in {span}")
        }
    }
}

/// Describes why the scan ended.
fn describe_stop(report: &ScanReport) -> &str {
    match report.analysis.stopped_by.as_str() {
        "settled" => "no untried setting is expected to be faster",
        "grid_done" => "all cells are measured",
        "probes" => "the next probe would exceed the probe budget",
        "time" => "the next probe would exceed the time budget",
        "bytes" => "the next probe would exceed the payload budget",
        "far_end_gone" => "early: the server disconnected",
        "interrupted" => "early: interrupted",
        "application" => "the application limits the rate: no network setting helps",
        "policed" => "a policer limits the rate: no setting exceeds it",
        "shaped" => "a shaper limits the rate: no setting exceeds it",
        other => other,
    }
}
