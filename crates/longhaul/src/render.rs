//! Formats reports for people and for other programs.
//!
//! This module computes no statistics: it formats what the report contains, so that text, JSON and
//! archive agree. Text fits 80 columns and is readable without colour.
//!
//! - [`text`]: a throughput report; [`streams`], [`ends`], [`verdict`]: its parts
//! - [`live`]: progress lines of a run
//! - [`shape`]: goodput over time, drawn
//! - [`runs`]: the list of archived runs; [`routes`]: traces of one path over time
//! - [`scan`], [`host`], [`predict`], [`mod@path`], [`available`], [`load`]: other kinds of report
//! - [`capture`]: capture files; [`imported`]: results of other programs; [`mod@copy`]: copies
//! - [`mod@iperf3`]: a run as iperf3's JSON
//! - [`mod@watch`]: the cost of a watch file
//! - [`events`]: events with their causes; [`beside`]: comparisons of archived runs
//! - [`document`]: one report as text, Markdown and HTML; [`record`]: records and their bundles
//! - [`page`], [`figures`], [`style`]: lines, numbers and emphasis; [`html`]: self-contained pages

pub mod available;
pub mod beside;
pub mod capture;
pub mod claim;
pub mod copy;
pub mod document;
pub mod ends;
pub mod events;
pub mod figures;
pub mod host;
pub mod html;
pub mod imported;
pub mod iperf3;
pub mod live;
pub mod load;
pub mod page;
pub mod path;
pub mod predict;
pub mod record;
pub mod routes;
pub mod runs;
pub mod scan;
pub mod shape;
pub mod streams;
pub mod style;
pub mod text;
pub mod verdict;
pub mod watch;

use longhaul_model::report::v1::AnyReport;

/// Renders a report of any kind.
pub fn any(report: &AnyReport) -> String {
    match report {
        AnyReport::Throughput(run) => text::report(run),
        AnyReport::Scan(scan) => scan::report(scan),
        AnyReport::Host(host) => host::report(host),
        AnyReport::Predict(predict) => predict::report(predict),
        AnyReport::Path(path) => path::report(path),
        AnyReport::Available(available) => available::report(available),
        AnyReport::Load(load) => load::report(load),
        AnyReport::Imported(imported) => imported::report(imported),
        AnyReport::Copy(copy) => copy::report(copy),
    }
}
