//! A report of kind `path` as text: RTTs, both routes, path MTU, TCP options, and the place where
//! the queue grew.
//!
//! - [`hop_table`]: the table of a route; [`hop_marks`]: remarks on single hops
//! - [`path_facts`]: all other measurements, line by line
//! - [`hops_under_load`]: hops under load, and the narrow link

pub mod hop_marks;
pub mod hop_table;
mod hops_under_load;
pub mod path_facts;
#[cfg(test)]
mod tests;

use crate::document::ReportDocument;
use crate::style::CAVEAT;
use longhaul_model::report::v1::PathReport;
use longhaul_model::report::v1::path::ProbeProtocol;

pub fn build_path_document(report: &PathReport) -> ReportDocument {
    let (observation, analysis) = (&report.observation, &report.analysis);
    let mut page = ReportDocument::for_run(&report.run);
    path_facts::write_round_trips(&mut page, observation, analysis);
    if let Some(route) = &observation.route {
        page.gap();
        hop_table::write_route_heading(&mut page, "ROUTE", analysis.route_number, route);
        hop_table::write_hop_table(&mut page, route, &analysis.hops);
    }
    path_facts::write_route_change(&mut page, analysis.route_change.as_ref());
    if let Some(route) = &observation.route_reverse {
        page.gap();
        hop_table::write_route_heading(&mut page, "REVERSE ROUTE", None, route);
        hop_table::write_hop_table(&mut page, route, &[]);
        page.facts("symmetry", analysis.symmetry.as_ref().map(|it| it.text.as_str()));
    }
    path_facts::write_mtu_and_options(&mut page, observation, analysis);
    let told = report.findings.iter().any(|f| f.cause == "narrow_link");
    hops_under_load::write_hops_under_load(&mut page, observation, analysis, told);
    page.findings(&report.findings);
    page.caveats(&report.caveats);
    if !observation.missing.is_empty() {
        page.gap();
    }
    for missing in &observation.missing {
        let told = format!("{}: {}", missing.what.replace('_', " "), missing.why);
        page.styled_item("missing: ", &told, CAVEAT);
    }
    page
}

/// Returns the name of a protocol for use in a sentence.
pub const fn protocol_name(protocol: ProbeProtocol) -> &'static str {
    match protocol {
        ProbeProtocol::Icmp => "ICMP",
        ProbeProtocol::Udp => "UDP",
        ProbeProtocol::Tcp => "TCP",
    }
}

/// Formats nanoseconds as milliseconds in 6 columns, with more decimals below 10 ms.
pub fn format_ms(ns: u64) -> String {
    let value = ns as f64 / 1e6;
    match value {
        v if v < 9.9995 => format!("{v:.3}"),
        v if v < 9999.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
