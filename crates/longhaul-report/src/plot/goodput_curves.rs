//! Goodput of a scan against streams: one line for each window, with the range of its repeats.

use super::figure_sheet::FigureSheet;
use super::scan_panels::{ScanPanel, list_scan_panels};
use super::stream_curves::{CurveMark, CurvePanel, RateLevel, WindowCurve, draw_stream_curves};
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::scan::{CurvePoint, GoodputCurve};

pub fn draw_goodput_curves(scan: &ScanReport) -> FigureSheet {
    let panels = list_scan_panels(scan).into_iter().map(build_panel);
    draw_stream_curves(
        "Goodput against streams",
        "median of each setting; bars: min to max of its repeats",
        &scan.run,
        &panels.collect::<Vec<_>>(),
        "No probe succeeded.",
    )
}

fn build_panel(panel: ScanPanel) -> CurvePanel {
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
    let level = panel
        .found
        .top_tenth
        .as_ref()
        .map(|top| RateLevel { name: "top 10 % above", bps: top.goodput_bps as f64 });
    CurvePanel { title: panel.title, curves, level, dots: true }
}
