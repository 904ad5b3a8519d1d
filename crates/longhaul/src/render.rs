//! Turns reports into what people read and programs parse.
//!
//! Nothing here computes a statistic: it formats what the report holds, so that text, JSON and
//! archive cannot disagree. Text fits 80 columns and reads without colour.
//!
//! - [`text`]: a whole report; [`streams`], [`ends`], [`verdict`]: its parts
//! - [`live`]: the lines while a run is going on
//! - [`shape`]: the course of a run, drawn
//! - [`runs`]: the list of archived runs; [`routes`]: traces of one path over time
//! - [`scan`], [`host`], [`predict`], [`mod@path`], [`available`], [`load`]: the other kinds of
//!   report
//! - [`capture`]: files of packets; [`imported`]: what other programs measured; [`mod@copy`]: files
//! - [`mod@iperf3`]: a run in the shape of iperf3's JSON
//! - [`mod@watch`]: what a watch file will cost
//! - [`events`]: lasting changes, with their causes; [`beside`]: archived runs beside each other
//! - [`document`]: one report as text, Markdown and HTML; [`record`]: records and their bundles
//! - [`page`], [`figures`], [`style`]: lines, numbers and emphasis; [`html`]: pages that stand alone

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

/// A report of any kind.
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
