#![forbid(unsafe_code)]
//! Formats reports as text, Markdown, HTML, figures and the JSON of iperf3, for programs that have
//! reports of format v1 and measure nothing.
//!
//! The crate computes no statistics: it formats what the report contains, so that text, JSON and
//! archive agree. Text fits 80 columns and is readable without colour.
//!
//! - [`throughput_text`]: a throughput report; [`verdict_text`]: its verdict
//! - [`routes_text`]: traces of one path over time
//! - [`scan_text`], [`audit_text`], [`prediction_text`], [`mod@path_text`], [`available_text`], [`load_text`]: other kinds of report
//! - [`capture_text`]: capture files; [`imported_text`]: results of other programs; [`mod@copy_text`]: copies
//! - [`mod@iperf3_report_json`]: a run as iperf3's JSON; [`pscheduler_json`]: results of pScheduler's tests
//! - [`run_answer`]: the answer of a run, in at most six lines
//! - [`mod@plot`]: figures of scans, predictions and loads
//! - [`event_text`]: events with their causes; [`summary_lines`]: reports and events in one line each;
//!   [`run_comparison`]: comparisons of archived runs
//! - [`document`]: one report as text, Markdown and HTML; [`record_text`]: records and their bundles
//! - [`text_page`], [`number_format`], [`style`]: lines, numbers and emphasis; [`run_header`]: ids and times

pub mod audit_text;
pub mod available_text;
pub mod capture_text;
pub mod claim_text;
pub mod copy_text;
pub mod document;
pub mod event_text;
pub mod flow_text;
pub mod goodput_picture;
pub mod imported_text;
pub mod iperf3_report_json;
pub mod latency_text;
pub mod load_text;
pub mod number_format;
pub mod path_text;
pub mod plot;
pub mod prediction_text;
pub mod pscheduler_json;
pub mod record_text;
pub mod routes_text;
pub mod run_answer;
pub mod run_comparison;
pub mod run_header;
pub mod scan_text;
pub mod style;
pub mod summary_lines;
pub mod text_page;
pub mod throughput_text;
pub mod verdict_text;

use longhaul_model::report::v1::AnyReport;

/// Returns the document of a report of any kind.
pub fn build_document(report: &AnyReport) -> document::ReportDocument {
    match report {
        AnyReport::Throughput(run) => throughput_text::build_throughput_document(run),
        AnyReport::Scan(scan) => scan_text::build_scan_document(scan),
        AnyReport::Host(host) => audit_text::build_host_document(host),
        AnyReport::Predict(predict) => prediction_text::build_prediction_document(predict),
        AnyReport::Path(path) => path_text::build_path_document(path),
        AnyReport::Available(available) => available_text::build_available_document(available),
        AnyReport::Load(load) => load_text::build_load_document(load),
        AnyReport::Imported(imported) => imported_text::build_imported_document(imported),
        AnyReport::Copy(copy) => copy_text::build_copy_document(copy),
        AnyReport::Flows(flows) => flow_text::build_flows_document(flows),
        AnyReport::Latency(latency) => latency_text::build_latency_document(latency),
    }
}
