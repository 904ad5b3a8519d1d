//! The probes of a guided search in time order, each with its reason.

use super::words;
use crate::render::figures::{ABSENT, RateUnit, grouped, millis, or_absent};
use crate::render::page::{Page, WIDTH, wrap};
use crate::render::style::{FAINT, STRONG, paint};
use longhaul_model::report::v1::scan::{Cell, Conclusion};
use longhaul_model::units::Bytes;

/// Width of the setting.
const SETTING: usize = 25;

/// Writes the table of one direction.
pub fn table(page: &mut Page, cells: &[Cell], conclusion: &Conclusion) {
    let own = || cells.iter().filter(|c| c.forward == conclusion.forward);
    let greatest = own().filter_map(|cell| cell.goodput_bps).max();
    let unit = RateUnit::for_greatest(greatest.unwrap_or(0));
    page.blank();
    page.line(&paint(
        STRONG,
        format!(
            "{:>4}  {:<SETTING$}{:>9}  {:<16}{:>11}{:>11}",
            "", "streams x window", unit.name, "limited by", "RTT ms", "sent again"
        ),
    ));
    for cell in own() {
        row(page, cell, conclusion, unit);
    }
    page.line(&paint(FAINT, "   * recommended   + highest goodput"));
}

fn row(page: &mut Page, cell: &Cell, conclusion: &Conclusion, unit: RateUnit) {
    let mark = mark(cell, conclusion);
    let setting = words::short(&cell.setting);
    let head = format!("{:>3}{mark}  {setting:<SETTING$}", cell.index + 1);
    if let Some(error) = &cell.error {
        page.hanging(&head, &format!("failed: {error}"));
    } else {
        page.line(&format!(
            "{head}{:>9}  {:<16}{:>11}{:>11}",
            or_absent(cell.goodput_bps, |bps| unit.short(bps)),
            cell.limited_by.map_or(ABSENT, words::limit),
            or_absent(cell.loaded_rtt_us, millis),
            or_absent(cell.retransmitted_segments, grouped),
        ));
    }
    for text in cell.why.iter().chain(&clipped(cell)) {
        for line in wrap(text, WIDTH - 6) {
            page.line(&paint(FAINT, format!("      {line}")));
        }
    }
}

fn mark(cell: &Cell, conclusion: &Conclusion) -> char {
    let is = |choice: &Option<longhaul_model::report::v1::scan::Choice>| {
        choice.as_ref().is_some_and(|c| c.setting == cell.setting)
    };
    if is(&conclusion.recommended) {
        '*'
    } else if is(&conclusion.best) {
        '+'
    } else {
        ' '
    }
}

/// Describes buffers for which a kernel granted less than requested.
fn clipped(cell: &Cell) -> Option<String> {
    let asked = cell.setting.window_bytes?;
    let less = |name: &str, granted: Option<u64>| {
        let granted = granted.filter(|bytes| *bytes < asked)?;
        Some(format!("{name} {}", Bytes(granted)))
    };
    let parts: Vec<String> = [
        less("send buffer", cell.granted_send_bytes),
        less("receive buffer", cell.granted_receive_bytes),
    ]
    .into_iter()
    .flatten()
    .collect();
    let all = parts.join(", ");
    (!parts.is_empty()).then(|| format!("granted less than asked: {all}"))
}
