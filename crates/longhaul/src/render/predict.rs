//! A prediction as text: the path, a table for each congestion control, and the comparison with a
//! scan.
//!
//! - [`table`]: windows by streams; [`beside`]: comparison with a scan
//! - [`csv`]: one CSV line per cell

mod beside;
pub mod csv;
mod table;

use super::figures::{duration, percent, rate};
use super::page::Page;
use super::scan::words::span;
use super::text;
use longhaul_model::report::v1::Predict;
use longhaul_model::report::v1::predict::{Cell, Plan};
use longhaul_model::units::Bytes;

/// The cells of one table, which differ only in window and streams.
struct Sheet<'a> {
    congestion_control: &'a str,
    loss_ratio: f64,
    buffer_bytes: u64,
    cells: Vec<&'a Cell>,
}

pub fn report(report: &Predict) -> String {
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    facts(&mut page, &report.plan);
    for sheet in sheets(report) {
        page.blank();
        page.heading(&heading(&report.plan, &sheet));
        table::block(&mut page, &report.plan, &sheet);
        beside::block(&mut page, &sheet);
    }
    beside::agreement(&mut page, report);
    text::caveats(&mut page, &report.caveats);
    text::footer(&mut page, &report.run);
    page.finish()
}

fn facts(page: &mut Page, plan: &Plan) {
    let path = &plan.path;
    let pipe = path.capacity_bps as f64 * path.rtt_us as f64 / 8e6;
    let origin = match path.origin.as_str() {
        "asked" => String::new(),
        origin => format!(" (from scan {origin})"),
    };
    page.labelled(
        "path",
        &format!(
            "{} of IP, {} idle, {} in flight when full, {} B of payload in {} B{origin}",
            rate(path.capacity_bps),
            duration(path.rtt_us),
            Bytes(pipe as u64),
            path.mss_bytes,
            path.mss_bytes + path.header_bytes,
        ),
    );
    let hosts = &plan.hosts;
    let mut known = Vec::new();
    if let Some(bytes) = hosts.auto_window_bytes {
        known.push(format!("auto is up to {}", Bytes(bytes)));
    }
    if let Some(bytes) = hosts.granted_most_bytes {
        known.push(format!("at most {} are granted", Bytes(bytes)));
    }
    if let Some(bps) = hosts.processor_bps {
        known.push(format!("their processors do {}", rate(bps)));
    }
    if known.is_empty() {
        known.push(String::from("no limit known"));
    }
    page.labelled("hosts", &known.join("; "));
    page.labelled(
        "predicted",
        &format!(
            "steady goodput of {}, by a round model; the bound is what no transfer passes",
            span(plan.time_us)
        ),
    );
}

/// Returns the tables, in the order of the report.
fn sheets(report: &Predict) -> Vec<Sheet<'_>> {
    let mut all: Vec<Sheet> = Vec::new();
    for cell in &report.analysis.cells {
        let name = cell.setting.congestion_control.as_deref().unwrap_or("");
        let same = |s: &Sheet| {
            s.congestion_control == name
                && s.loss_ratio.total_cmp(&cell.loss_ratio).is_eq()
                && s.buffer_bytes == cell.buffer_bytes
        };
        if let Some(sheet) = all.iter_mut().find(|s| same(s)) {
            sheet.cells.push(cell);
        } else {
            all.push(Sheet {
                congestion_control: name,
                loss_ratio: cell.loss_ratio,
                buffer_bytes: cell.buffer_bytes,
                cells: vec![cell],
            });
        }
    }
    all
}

fn heading(plan: &Plan, sheet: &Sheet) -> String {
    let queue_us = sheet.buffer_bytes as f64 * 8e6 / plan.path.capacity_bps.max(1) as f64;
    let loss = match sheet.loss_ratio {
        0.0 => String::from("no loss"),
        ratio => format!("{} loss", percent(ratio)),
    };
    format!(
        "{}, {loss}, queue of {} ({})",
        sheet.congestion_control,
        Bytes(sheet.buffer_bytes),
        duration(queue_us as u64)
    )
}

#[cfg(test)]
mod tests;
