//! The table of windows by streams: goodput with the letter of its limiter, and the bound below.

use super::PredictionSheet;
use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::{RateUnit, count_of};
use crate::scan_text::setting_format;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::predict::{PredictionCell, PredictionPlan};

/// A bound is reached if the goodput is above this share of it.
const REACHED_RATIO: f64 = 0.99;
/// The number of stream columns that fit.
const ACROSS: usize = 7;

pub fn write_prediction_table(
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

pub fn limiter_letter(limiter: Limiter) -> char {
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
