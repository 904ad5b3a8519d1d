//! A report of kind `path` as text: RTTs, both routes, path MTU, TCP options, and the place where
//! the queue grew.
//!
//! - [`hops`]: the table of a route; [`marks`]: remarks on single hops
//! - [`facts`]: all other measurements, line by line
//! - [`loaded`]: hops under load, and the narrow link

pub mod facts;
pub mod hops;
mod loaded;
pub mod marks;
#[cfg(test)]
mod tests;

use super::page::Page;
use super::style::CAVEAT;
use super::{text, verdict};
use longhaul_model::report::v1::Path;
use longhaul_model::report::v1::path::Protocol;

pub fn report(report: &Path) -> String {
    let (observation, analysis) = (&report.observation, &report.analysis);
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    facts::round_trips(&mut page, observation, analysis);
    if let Some(route) = &observation.route {
        page.blank();
        hops::heading(&mut page, "ROUTE", analysis.route_number, route);
        hops::table(&mut page, route, &analysis.hops);
    }
    facts::change(&mut page, analysis.route_change.as_ref());
    if let Some(route) = &observation.route_reverse {
        page.blank();
        hops::heading(&mut page, "ROUTE BACK", None, route);
        hops::table(&mut page, route, &[]);
        facts::symmetry(&mut page, observation, analysis);
    }
    facts::packets(&mut page, observation, analysis);
    let told = report.findings.iter().any(|f| f.cause == "narrow_link");
    loaded::block(&mut page, observation, analysis, told);
    verdict::explain_all(&mut page, &report.findings);
    text::caveats(&mut page, &report.caveats);
    if !observation.missing.is_empty() {
        page.blank();
    }
    for missing in &observation.missing {
        let told = format!("{}: {}", missing.what.replace('_', " "), missing.why);
        page.hanging_in("missing: ", &told, CAVEAT);
    }
    text::footer(&mut page, &report.run);
    page.finish()
}

/// Returns the name of a protocol for use in a sentence.
pub const fn spoken(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Icmp => "ICMP",
        Protocol::Udp => "UDP",
        Protocol::Tcp => "TCP",
    }
}

/// Formats nanoseconds as milliseconds in 6 columns, with more decimals below 10 ms.
pub fn ms(ns: u64) -> String {
    let value = ns as f64 / 1e6;
    match value {
        v if v < 9.9995 => format!("{v:.3}"),
        v if v < 9999.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
