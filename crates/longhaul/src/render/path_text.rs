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

use super::style::CAVEAT;
use super::text_page::TextPage;
use super::{throughput_text, verdict_text};
use longhaul_model::report::v1::PathReport;
use longhaul_model::report::v1::path::ProbeProtocol;

pub fn render_path(report: &PathReport) -> String {
    let (observation, analysis) = (&report.observation, &report.analysis);
    let mut page = TextPage::default();
    throughput_text::write_title(&mut page, &report.run);
    path_facts::write_round_trips(&mut page, observation, analysis);
    if let Some(route) = &observation.route {
        page.blank();
        hop_table::write_route_heading(&mut page, "ROUTE", analysis.route_number, route);
        hop_table::write_hop_table(&mut page, route, &analysis.hops);
    }
    path_facts::write_route_change(&mut page, analysis.route_change.as_ref());
    if let Some(route) = &observation.route_reverse {
        page.blank();
        hop_table::write_route_heading(&mut page, "REVERSE ROUTE", None, route);
        hop_table::write_hop_table(&mut page, route, &[]);
        path_facts::write_symmetry(&mut page, observation, analysis);
    }
    path_facts::write_mtu_and_options(&mut page, observation, analysis);
    let told = report.findings.iter().any(|f| f.cause == "narrow_link");
    hops_under_load::write_hops_under_load(&mut page, observation, analysis, told);
    verdict_text::write_findings(&mut page, &report.findings);
    throughput_text::write_caveats(&mut page, &report.caveats);
    if !observation.missing.is_empty() {
        page.blank();
    }
    for missing in &observation.missing {
        let told = format!("{}: {}", missing.what.replace('_', " "), missing.why);
        page.hanging_paragraph_styled("missing: ", &told, CAVEAT);
    }
    throughput_text::write_footer(&mut page, &report.run);
    page.finish()
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
