//! Predicted and measured goodput over streams: lines are predictions, rings are measurements.

use super::figure_frame;
use super::figure_sheet::FigureSheet;
use super::stream_curves::{
    CurveMark, CurvePanel, RateLevel, WindowCurve, draw_stream_curves, highest_rate,
};
use crate::prediction_text::{PredictionSheet, format_heading, group_cells};
use longhaul_model::report::v1::PredictionReport;
use longhaul_model::report::v1::predict::PredictionPlan;
use std::collections::BTreeMap;

const MAX_PANELS: usize = 6;

pub fn draw_prediction(predict: &PredictionReport) -> FigureSheet {
    let under = match &predict.plan.scan_id {
        Some(id) => {
            let id = figure_frame::shorten_name(id);
            format!("lines: predicted; rings: measured by the scan {id}")
        }
        None => String::from("lines: predicted; no scan to compare with"),
    };
    let sheets = group_cells(predict).into_iter().take(MAX_PANELS);
    let panels: Vec<CurvePanel> = sheets.map(|sheet| build_panel(&predict.plan, &sheet)).collect();
    let title = "Predicted goodput against streams";
    draw_stream_curves(title, &under, &predict.run, &panels, "No predictions.")
}

fn build_panel(plan: &PredictionPlan, sheet: &PredictionSheet) -> CurvePanel {
    let mut curves: BTreeMap<Option<u64>, Vec<CurveMark>> = BTreeMap::new();
    for cell in &sheet.cells {
        curves.entry(cell.setting.window_bytes).or_default().push(CurveMark {
            streams: cell.setting.streams,
            bps: cell.goodput_bps as f64,
            range_bps: None,
            ring_bps: cell.measured_bps,
        });
    }
    let most = curves.values().flatten().map(highest_rate).fold(0.0, f64::max);
    let bps = plan.path.capacity_bps as f64;
    let capacity = RateLevel { name: "capacity", bps };
    let curves = curves.into_iter().map(|(window_bytes, mut marks)| {
        marks.sort_by_key(|mark| mark.streams);
        WindowCurve { window_bytes, marks }
    });
    CurvePanel {
        title: format_heading(plan, sheet),
        curves: curves.collect(),
        level: Some(capacity).filter(|level| level.bps < 2.0 * most),
        dots: false,
    }
}
