//! The probes of a guided search in time order, each with its reason.

use super::setting_format;
use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::{ABSENT, RateUnit, format_grouped, format_millis, or_absent};
use longhaul_model::report::v1::scan::{ScanCell, ScanConclusion};
use longhaul_model::units::Bytes;

/// Writes the table of one direction.
pub fn write_probe_table(
    page: &mut ReportDocument,
    cells: &[ScanCell],
    conclusion: &ScanConclusion,
) {
    let own = || cells.iter().filter(|c| c.forward == conclusion.forward);
    let greatest = own().filter_map(|cell| cell.goodput_bps).max();
    let unit = RateUnit::for_max(greatest.unwrap_or(0));
    let mut table = DocumentTable::new([
        right("#"),
        left("streams x window"),
        right(unit.name),
        left("limited by"),
        right("RTT ms"),
        right("retr"),
    ]);
    for cell in own() {
        add_probe(&mut table, cell, conclusion, unit);
    }
    page.gap();
    page.table(table);
    page.faint("* recommended, + highest goodput");
}

fn add_probe(
    table: &mut DocumentTable,
    cell: &ScanCell,
    conclusion: &ScanConclusion,
    unit: RateUnit,
) {
    let mark = choice_mark(cell, conclusion);
    let limiter = cell.limited_by.map_or(ABSENT, setting_format::limiter_label);
    table.row([
        format!("{}{mark}", cell.index + 1),
        setting_format::format_setting(&cell.setting),
        or_absent(cell.goodput_bps, |bps| unit.short(bps)),
        limiter.to_owned(),
        or_absent(cell.loaded_rtt_us, format_millis),
        or_absent(cell.retransmitted_segments, format_grouped),
    ]);
    if let Some(error) = &cell.error {
        table.detail(format!("failed: {error}"));
    }
    for text in cell.why.iter().chain(&describe_clipped_buffers(cell)) {
        table.detail(text);
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
