//! The probes of a guided search in time order, each with its reason.

use super::setting_format;
use crate::render::number_format::{ABSENT, RateUnit, format_grouped, format_millis, or_absent};
use crate::render::style::{FAINT, STRONG, paint};
use crate::render::text_page::{TextPage, WIDTH, wrap_text};
use longhaul_model::report::v1::scan::{ScanCell, ScanConclusion};
use longhaul_model::units::Bytes;

/// Width of the setting.
const SETTING: usize = 25;

/// Writes the table of one direction.
pub fn write_probe_table(page: &mut TextPage, cells: &[ScanCell], conclusion: &ScanConclusion) {
    let own = || cells.iter().filter(|c| c.forward == conclusion.forward);
    let greatest = own().filter_map(|cell| cell.goodput_bps).max();
    let unit = RateUnit::for_max(greatest.unwrap_or(0));
    page.blank();
    page.line(&paint(
        STRONG,
        format!(
            "{:>4}  {:<SETTING$}{:>9}  {:<16}{:>11}{:>11}",
            "", "streams x window", unit.name, "limited by", "RTT ms", "retr"
        ),
    ));
    for cell in own() {
        write_probe(page, cell, conclusion, unit);
    }
    page.line(&paint(FAINT, "   * recommended   + highest goodput"));
}

fn write_probe(page: &mut TextPage, cell: &ScanCell, conclusion: &ScanConclusion, unit: RateUnit) {
    let mark = choice_mark(cell, conclusion);
    let setting = setting_format::format_setting(&cell.setting);
    let head = format!("{:>3}{mark}  {setting:<SETTING$}", cell.index + 1);
    if let Some(error) = &cell.error {
        page.hanging_paragraph(&head, &format!("failed: {error}"));
    } else {
        page.line(&format!(
            "{head}{:>9}  {:<16}{:>11}{:>11}",
            or_absent(cell.goodput_bps, |bps| unit.short(bps)),
            cell.limited_by
                .map_or(ABSENT, setting_format::limiter_label),
            or_absent(cell.loaded_rtt_us, format_millis),
            or_absent(cell.retransmitted_segments, format_grouped),
        ));
    }
    for text in cell.why.iter().chain(&describe_clipped_buffers(cell)) {
        for line in wrap_text(text, WIDTH - 6) {
            page.line(&paint(FAINT, format!("      {line}")));
        }
    }
}

fn choice_mark(cell: &ScanCell, conclusion: &ScanConclusion) -> char {
    let is = |choice: &Option<longhaul_model::report::v1::scan::SettingChoice>| {
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
fn describe_clipped_buffers(cell: &ScanCell) -> Option<String> {
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
    (!parts.is_empty()).then(|| format!("got less than requested: {all}"))
}
