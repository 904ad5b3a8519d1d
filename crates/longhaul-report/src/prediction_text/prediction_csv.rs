//! CSV of a prediction (RFC 4180), one line per cell.

use crate::scan_text::scan_csv::{format_optional, push_csv_line};
use longhaul_model::report::v1::PredictionReport;
use longhaul_model::report::v1::predict::PredictionCell;

/// One column: its name, and its value.
type PredictionCsvField = (&'static str, fn(&PredictionCell) -> String);

const FIELDS: [PredictionCsvField; 14] = [
    ("congestion_control", |c| format_optional(c.setting.congestion_control.as_ref())),
    ("loss_ratio", |c| c.loss_ratio.to_string()),
    ("buffer_bytes", |c| c.buffer_bytes.to_string()),
    ("window_bytes", |c| format_optional(c.setting.window_bytes)),
    ("streams", |c| c.setting.streams.to_string()),
    ("predicted_bps", |c| c.goodput_bps.to_string()),
    ("limited_by", |c| c.limited_by.to_string()),
    ("bound_bps", |c| format_optional(c.bounds.first().map(|b| b.rate_bps))),
    ("bound", |c| format_optional(c.bounds.first().map(|b| b.limiter.word()))),
    ("queue_bytes", |c| c.queue_bytes.to_string()),
    ("made_loss_ratio", |c| c.made_loss_ratio.to_string()),
    ("measured_bps", |c| format_optional(c.measured_bps)),
    // A ratio instead of a signed difference, so that no field starts with a sign.
    ("measured_over_predicted", |c| format_optional(c.disagreement_ratio.map(|ratio| 1.0 + ratio))),
    ("meaning", |c| format_optional(c.meaning.as_ref())),
];

/// Renders header and lines; names contain the units, and an empty window is autotuned by the
/// kernel.
pub fn render_prediction_csv(report: &PredictionReport) -> String {
    let mut text = String::new();
    let header: Vec<String> = FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    push_csv_line(&mut text, &header);
    for cell in &report.analysis.cells {
        let fields: Vec<String> = FIELDS.iter().map(|(_, of)| of(cell)).collect();
        push_csv_line(&mut text, &fields);
    }
    text
}
