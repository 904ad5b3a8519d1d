//! A prediction as text: the path, a table for each congestion control, and the comparison with a
//! scan.

use super::scan_text::setting_format::format_span;
use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::{
    ABSENT, RateUnit, count_of, format_micros, format_percent, format_rate, join_parts, non_empty,
    or_absent,
};
use crate::run_answer;
use crate::scan_text::setting_format;
use longhaul_model::report::v1::PredictionReport;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::predict::{PredictionCell, PredictionPlan};
use longhaul_model::units::Bytes;

/// The cells of one table, which differ only in window and streams.
pub struct PredictionSheet<'a> {
    congestion_control: &'a str,
    loss_ratio: f64,
    buffer_bytes: u64,
    pub cells: Vec<&'a PredictionCell>,
}

impl PredictionSheet<'_> {
    /// Returns what the sheet varies: `cubic`, `bbr, 0.01 % loss`.
    pub fn name(&self) -> String {
        match self.loss_ratio {
            0.0 => self.congestion_control.to_owned(),
            ratio => format!("{}, {} loss", self.congestion_control, format_percent(ratio)),
        }
    }
}

pub fn build_prediction_document(report: &PredictionReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    run_answer::answer_prediction(&mut page, report);
    write_facts(&mut page, &report.plan);
    let write_sheet = |page: &mut ReportDocument, sheet: &PredictionSheet| {
        page.gap();
        page.heading(3, format_heading(&report.plan, sheet));
        write_prediction_table(page, &report.plan, sheet);
        page.details(|page| write_measured_cells(page, sheet));
    };
    // The brief text has the first sheet only.
    let sheets = group_cells(report);
    if let [first, others @ ..] = sheets.as_slice() {
        write_sheet(&mut page, first);
        page.details(|page| {
            for sheet in others {
                write_sheet(page, sheet);
            }
        });
    }
    write_agreement(&mut page, report);
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
            path.mss_bytes.saturating_add(path.header_bytes),
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

/// The maximum number of measured cells listed.
const MAX_LISTED_CELLS: usize = 64;

/// Writes the measured cells, if there are any.
fn write_measured_cells(page: &mut ReportDocument, sheet: &PredictionSheet) {
    let measured: Vec<&PredictionCell> =
        sheet.cells.iter().copied().filter(|c| c.measured_bps.is_some()).collect();
    if measured.is_empty() {
        return;
    }
    let greatest = measured.iter().filter_map(|c| c.measured_bps).max().unwrap_or(0);
    let unit = RateUnit::for_max(greatest);
    let rate = |bps: u64| format!("{} {}", unit.short(bps), unit.name);
    let setting = |cell: &PredictionCell| {
        let window = setting_format::format_window(cell.setting.window_bytes);
        format!("{} x {window}", cell.setting.streams)
    };
    let limiter = |cell: &PredictionCell| limiter_letter(cell.limited_by).to_string();
    let table = DocumentTable::from_rows(measured.iter().copied().take(MAX_LISTED_CELLS))
        .text("setting", setting)
        .number("measured", |cell| or_absent(cell.measured_bps, rate))
        .number("predicted", |cell| rate(cell.goodput_bps))
        .number("measured is", format_difference)
        .text("", limiter)
        .details(|cell| cell.meaning.clone())
        .finish();
    page.gap();
    page.table(table);
    if measured.len() > MAX_LISTED_CELLS {
        let more = measured.len() - MAX_LISTED_CELLS;
        page.paragraph(format!("and {more} more cells; `--json` lists all"));
    }
}

/// Formats a disagreement: `12 % less`, `3 % more`.
fn format_difference(cell: &PredictionCell) -> String {
    let Some(ratio) = cell.disagreement_ratio else {
        return ABSENT.to_owned();
    };
    let percent = (100.0 * ratio.abs()).round();
    match percent {
        0.0 => String::from("the same"),
        _ if ratio < 0.0 => format!("{percent:.0} % less"),
        _ => format!("{percent:.0} % more"),
    }
}

/// Writes the last line: the overall agreement of the prediction with the scan.
fn write_agreement(page: &mut ReportDocument, report: &PredictionReport) {
    let Some(agreement) = &report.analysis.agreement else {
        return;
    };
    let ranks = match agreement.rank_correlation {
        Some(ratio) => format!("rank correlation {ratio:.2} (Spearman)"),
        None => String::from("too few distinct cells for a rank correlation"),
    };
    page.gap();
    page.fact(
        "agreement",
        format!(
            "{} measured cells: {ranks}; median error of the prediction {:.0} %",
            agreement.cells,
            100.0 * agreement.median_error_ratio
        ),
    );
}

/// A bound is reached if the goodput is above this share of it.
const REACHED_RATIO: f64 = 0.99;
/// The number of stream columns that fit.
const ACROSS: usize = 7;

fn write_prediction_table(
    page: &mut ReportDocument,
    plan: &PredictionPlan,
    sheet: &PredictionSheet,
) {
    let all = sheet.cells.iter();
    let greatest = all.map(|c| c.goodput_bps.max(lowest_bound(c))).max().unwrap_or(0);
    let unit = RateUnit::for_max(greatest);
    for streams in plan.streams.chunks(ACROSS) {
        let across = streams.iter().map(|n| {
            let streams = count_of(u64::from(*n), "stream");
            right(streams.replace("streams", "str.").replace("stream", "str."))
        });
        let mut table = DocumentTable::new([left(unit.name)].into_iter().chain(across));
        for window in &plan.windows_bytes {
            add_window_rows(&mut table, sheet, (*window, streams), unit);
        }
        page.table(table);
    }
    page.faint(format_legend(sheet));
}

/// Adds the predictions of a window, and below them the bounds that are not reached.
fn add_window_rows(
    table: &mut DocumentTable,
    sheet: &PredictionSheet,
    (window, streams): (Option<u64>, &[u32]),
    unit: RateUnit,
) {
    let find = |n: &u32| {
        let mut cells = sheet.cells.iter();
        cells.find(|c| c.setting.window_bytes == window && c.setting.streams == *n)
    };
    let found: Vec<_> = streams.iter().filter_map(find).collect();
    let goodput = found.iter().map(|c| {
        let letter = limiter_letter(c.limited_by);
        format!("{}{letter}", unit.short(c.goodput_bps))
    });
    table.row([setting_format::format_window(window)].into_iter().chain(goodput));
    let differ =
        |c: &PredictionCell| (c.goodput_bps as f64) < REACHED_RATIO * lowest_bound(c) as f64;
    if !found.iter().any(|c| differ(c)) {
        return;
    }
    let bounds = found.iter().map(|c| {
        if differ(c) { format!("{} ", unit.short(lowest_bound(c))) } else { "= ".to_owned() }
    });
    table.row([String::from("  bound")].into_iter().chain(bounds));
}

fn lowest_bound(cell: &PredictionCell) -> u64 {
    cell.bounds.first().map_or(cell.goodput_bps, |b| b.rate_bps)
}

fn limiter_letter(limiter: Limiter) -> char {
    match limiter {
        Limiter::ReceiveWindow | Limiter::SendBuffer => 'w',
        Limiter::PathCapacity => 'p',
        Limiter::Loss => 'l',
        Limiter::CpuSender | Limiter::CpuReceiver => 'c',
        Limiter::Ramp => 'r',
        _ => ' ',
    }
}

/// Returns the meaning of the letters used.
fn format_legend(sheet: &PredictionSheet) -> String {
    let names =
        [('w', "window"), ('p', "path is full"), ('l', "loss"), ('c', "CPU"), ('r', "ramp")];
    let there = |mark: char| sheet.cells.iter().any(|c| limiter_letter(c.limited_by) == mark);
    let told: Vec<String> = names
        .iter()
        .filter(|(mark, _)| there(*mark))
        .map(|(mark, name)| format!("{mark} {name}"))
        .collect();
    told.join(", ")
}

#[cfg(test)]
mod tests;
