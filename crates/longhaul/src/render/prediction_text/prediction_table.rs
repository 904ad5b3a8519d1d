//! The table of windows by streams: goodput with the letter of its limiter, and the bound below.

use super::PredictionSheet;
use crate::render::number_format::{RateUnit, count_of};
use crate::render::scan_text::setting_format;
use crate::render::style::{FAINT, STRONG, paint};
use crate::render::text_page::{TextPage, WIDTH};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::predict::{PredictionCell, PredictionPlan};

/// Widths of the window, and of each number of streams.
const WINDOW: usize = 10;
const COLUMN: usize = 10;
/// A bound is reached if the goodput is above this share of it.
const REACHED_RATIO: f64 = 0.99;
/// The number of stream columns that fit.
const ACROSS: usize = (WIDTH - WINDOW) / COLUMN;

pub fn write_prediction_table(page: &mut TextPage, plan: &PredictionPlan, sheet: &PredictionSheet) {
    let all = sheet.cells.iter();
    let greatest = all
        .map(|c| c.goodput_bps.max(lowest_bound(c)))
        .max()
        .unwrap_or(0);
    let unit = RateUnit::for_max(greatest);
    for streams in plan.streams.chunks(ACROSS) {
        let across = streams.iter().map(|n| {
            let text = count_of(u64::from(*n), "str.").replace("str.s", "str.");
            format!("{text:>COLUMN$}")
        });
        let across: String = across.collect();
        page.line(&paint(STRONG, format!("{:<WINDOW$}{across}", unit.name)));
        for window in &plan.windows_bytes {
            write_window_row(page, sheet, *window, streams, unit);
        }
    }
    page.line(&paint(FAINT, format_legend(sheet)));
}

/// Writes the predictions of a window, and below them the bounds that are not reached.
fn write_window_row(
    page: &mut TextPage,
    sheet: &PredictionSheet,
    window: Option<u64>,
    streams: &[u32],
    unit: RateUnit,
) {
    let find = |n: &u32| {
        let mut cells = sheet.cells.iter();
        cells.find(|c| c.setting.window_bytes == window && c.setting.streams == *n)
    };
    let found: Vec<_> = streams.iter().filter_map(find).collect();
    let goodput = found.iter().map(|c| {
        let text = unit.short(c.goodput_bps);
        format!(
            "{text:>width$}{}",
            limiter_letter(c.limited_by),
            width = COLUMN - 1
        )
    });
    let line: String = goodput.collect();
    page.line(&format!(
        "{:<WINDOW$}{line}",
        setting_format::format_window(window)
    ));
    let differ =
        |c: &PredictionCell| (c.goodput_bps as f64) < REACHED_RATIO * lowest_bound(c) as f64;
    if !found.iter().any(|c| differ(c)) {
        return;
    }
    let bounds = found.iter().map(|c| {
        let reached = String::from("=");
        let text = if differ(c) {
            unit.short(lowest_bound(c))
        } else {
            reached
        };
        format!("{text:>width$} ", width = COLUMN - 1)
    });
    let bounds: String = bounds.collect();
    page.line(&paint(FAINT, format!("{:<WINDOW$}{bounds}", "  bound")));
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
    let names = [
        ('w', "window"),
        ('p', "path is full"),
        ('l', "loss"),
        ('c', "CPU"),
        ('r', "ramp"),
    ];
    let there = |mark: char| {
        sheet
            .cells
            .iter()
            .any(|c| limiter_letter(c.limited_by) == mark)
    };
    let told: Vec<String> = names
        .iter()
        .filter(|(mark, _)| there(*mark))
        .map(|(mark, name)| format!("{mark} {name}"))
        .collect();
    told.join("   ")
}
