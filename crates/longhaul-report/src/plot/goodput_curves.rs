//! Goodput of a scan against streams: one line for each window, with the range of its repeats.

use super::figure_sheet::{FigureSheet, TextAnchor};
use super::scan_panels::{ScanPanel, list_scan_panels};
use super::stream_curves::{
    CurveMark, CurvePanel, RateLevel, WindowCurve, draw_stream_curves, highest_rate,
};
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{CurvePoint, GoodputCurve};

pub fn draw_goodput_curves(scan: &ScanReport) -> FigureSheet {
    let panels = list_scan_panels(scan).into_iter().map(|panel| build_panel(scan, panel));
    draw_stream_curves(
        "Goodput against streams",
        "median of each setting; bars: min to max of its repeats",
        &scan.run,
        &panels.collect::<Vec<_>>(),
        "No probe succeeded.",
    )
}

fn build_panel(scan: &ScanReport, panel: ScanPanel) -> CurvePanel {
    let mark = |point: &CurvePoint| CurveMark {
        streams: point.streams,
        bps: point.goodput_bps as f64,
        range_bps: point.range_bps,
        ring_bps: None,
    };
    let curve = |curve: &&GoodputCurve| WindowCurve {
        window_bytes: curve.window_bytes,
        marks: curve.points.iter().map(mark).collect(),
    };
    let curves: Vec<WindowCurve> = panel.curves.iter().map(curve).collect();
    let top_tenth = panel.found.top_tenth.as_ref().map(|top| top.goodput_bps as f64);
    let seen = curves.iter().flat_map(|curve| &curve.marks).map(highest_rate);
    let most = seen.chain(top_tenth).fold(0.0, f64::max);
    let capacity = median_capacity(scan, panel.found.forward).filter(|bps| *bps < 2.0 * most);
    let levels = [
        top_tenth.map(|bps| RateLevel { name: "top 10 % above", bps, side: TextAnchor::Right }),
        capacity.map(|bps| RateLevel {
            name: "path capacity from probes",
            bps,
            side: TextAnchor::Left,
        }),
    ];
    CurvePanel {
        title: panel.title,
        curves,
        levels: levels.into_iter().flatten().collect(),
        dots: true,
    }
}

/// Returns the median of the path capacities that the probes give as their next limit.
fn median_capacity(scan: &ScanReport, forward: bool) -> Option<f64> {
    let cells = scan.observation.cells.iter().filter(|c| c.forward == forward);
    let bounds = cells.filter_map(|c| c.next_limit.as_ref());
    let mut rates: Vec<u64> =
        bounds.filter(|b| b.limiter == Limiter::PathCapacity).map(|b| b.rate_bps).collect();
    rates.sort_unstable();
    rates.get(rates.len() / 2).map(|bps| *bps as f64)
}
