//! A prediction as text: the path, a table for each congestion control, and the comparison with a
//! scan.
//!
//! - [`prediction_table`]: windows by streams; [`scan_agreement`]: comparison with a scan

mod prediction_table;
mod scan_agreement;

use super::scan_text::setting_format::format_span;
use crate::document::ReportDocument;
use crate::number_format::{format_micros, format_percent, format_rate, join_parts, non_empty};
use longhaul_model::report::v1::PredictionReport;
use longhaul_model::report::v1::predict::{PredictionCell, PredictionPlan};
use longhaul_model::units::Bytes;

/// The cells of one table, which differ only in window and streams.
pub struct PredictionSheet<'a> {
    congestion_control: &'a str,
    loss_ratio: f64,
    buffer_bytes: u64,
    pub cells: Vec<&'a PredictionCell>,
}

pub fn build_prediction_document(report: &PredictionReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    write_facts(&mut page, &report.plan);
    for sheet in group_cells(report) {
        page.gap();
        page.heading(3, format_heading(&report.plan, &sheet));
        prediction_table::write_prediction_table(&mut page, &report.plan, &sheet);
        scan_agreement::write_measured_cells(&mut page, &sheet);
    }
    scan_agreement::write_agreement(&mut page, report);
    page.caveats(&report.caveats);
    page
}

fn write_facts(page: &mut ReportDocument, plan: &PredictionPlan) {
    let path = &plan.path;
    let pipe = path.capacity_bps as f64 * path.rtt_us as f64 / 8e6;
    let origin = match path.origin.as_str() {
        "asked" => String::new(),
        origin => format!(" (from scan {origin})"),
    };
    page.fact(
        "path",
        format!(
            "{} at the IP layer, RTT {}, BDP {}, {} B of payload in {} B{origin}",
            format_rate(path.capacity_bps),
            format_micros(path.rtt_us),
            Bytes(pipe as u64),
            path.mss_bytes,
            path.mss_bytes + path.header_bytes,
        ),
    );
    let hosts = &plan.hosts;
    let known = [
        hosts.auto_window_bytes.map(|bytes| format!("autotuning up to {}", Bytes(bytes))),
        hosts.granted_most_bytes.map(|bytes| format!("max {} granted", Bytes(bytes))),
        hosts.processor_bps.map(|bps| format!("CPU limit {}", format_rate(bps))),
    ];
    let known = non_empty(join_parts("; ", known));
    page.fact("hosts", known.unwrap_or_else(|| "no known limits".to_owned()));
    page.fact(
        "predicted",
        format!(
            "steady goodput over {}, from a model of rounds; no transfer exceeds the bound",
            format_span(plan.time_us)
        ),
    );
}

/// Returns the tables, in the order of the report.
pub fn group_cells(report: &PredictionReport) -> Vec<PredictionSheet<'_>> {
    let mut all: Vec<PredictionSheet> = Vec::new();
    for cell in &report.analysis.cells {
        let name = cell.setting.congestion_control.as_deref().unwrap_or("default");
        let same = |s: &PredictionSheet| {
            s.congestion_control == name
                && s.loss_ratio.total_cmp(&cell.loss_ratio).is_eq()
                && s.buffer_bytes == cell.buffer_bytes
        };
        if let Some(sheet) = all.iter_mut().find(|s| same(s)) {
            sheet.cells.push(cell);
        } else {
            all.push(PredictionSheet {
                congestion_control: name,
                loss_ratio: cell.loss_ratio,
                buffer_bytes: cell.buffer_bytes,
                cells: vec![cell],
            });
        }
    }
    all
}

pub fn format_heading(plan: &PredictionPlan, sheet: &PredictionSheet) -> String {
    let queue_us = sheet.buffer_bytes as f64 * 8e6 / plan.path.capacity_bps.max(1) as f64;
    let loss = match sheet.loss_ratio {
        0.0 => String::from("no loss"),
        ratio => format!("{} loss", format_percent(ratio)),
    };
    format!(
        "{}, {loss}, queue of {} ({})",
        sheet.congestion_control,
        Bytes(sheet.buffer_bytes),
        format_micros(queue_us as u64)
    )
}

#[cfg(test)]
mod tests;
