//! The probes of a guided search in time order, each with its reason.

use super::setting_format;
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    ABSENT, RateUnit, format_grouped, format_millis, join_parts, non_empty, or_absent,
};
use longhaul_analysis::throughput::limiter_text::limiter_label;
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
    let limiter = |cell: &ScanCell| cell.limited_by.map_or(ABSENT, limiter_label);
    let table = DocumentTable::from_rows(own())
        .number("#", |it| {
            format!("{}{}", it.index + 1, setting_format::choice_mark(&it.setting, conclusion))
        })
        .text("streams x window", |it| setting_format::format_setting(&it.setting))
        .number(unit.name, |it| or_absent(it.goodput_bps, |bps| unit.short(bps)))
        .text("limited by", |it| limiter(it).to_owned())
        .number("RTT ms", |it| or_absent(it.loaded_rtt_us, format_millis))
        .number("retr", |it| or_absent(it.retransmitted_segments, format_grouped))
        .details(|it| {
            let failed = it.error.as_ref().map(|error| format!("failed: {error}"));
            [failed, it.why.clone(), describe_clipped_buffers(it)].into_iter().flatten()
        })
        .finish();
    page.gap();
    page.table(table);
    page.faint("* recommended, + highest goodput");
}

/// Describes buffers for which a kernel granted less than requested.
fn describe_clipped_buffers(cell: &ScanCell) -> Option<String> {
    let asked = cell.setting.window_bytes?;
    let less = |name: &str, granted: Option<u64>| {
        let granted = granted.filter(|bytes| *bytes < asked)?;
        Some(format!("{name} {}", Bytes(granted)))
    };
    let parts = [
        less("send buffer", cell.granted_send_bytes),
        less("receive buffer", cell.granted_receive_bytes),
    ];
    non_empty(join_parts(", ", parts)).map(|all| format!("got less than requested: {all}"))
}
