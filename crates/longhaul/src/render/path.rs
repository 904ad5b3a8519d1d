//! A report of kind `path` as text: round trips, the route there and back, path MTU, options, and
//! where the queue grew.
//!
//! - [`hops`]: the table of a route; [`marks`]: what is said of single hops
//! - [`facts`]: everything else that was seen, line by line
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

/// A protocol as it stands in a sentence.
pub const fn spoken(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Icmp => "ICMP",
        Protocol::Udp => "UDP",
        Protocol::Tcp => "TCP",
    }
}

/// Nanoseconds as milliseconds: finer below 10 ms, in 6 columns.
pub fn ms(ns: u64) -> String {
    let value = ns as f64 / 1e6;
    match value {
        v if v < 9.9995 => format!("{v:.3}"),
        v if v < 9999.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
