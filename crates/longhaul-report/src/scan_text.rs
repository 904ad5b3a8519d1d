//! A scan as text: the recommendation, its benefit, and every probe.
//!
//! - [`scan_advice`]: the recommended setting, compared with others, and the required host settings

mod scan_advice;
pub mod setting_format;

use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::{
    ABSENT, RateUnit, count_of, format_difference, format_grouped, format_millis, format_rate,
    join_parts, non_empty, or_absent,
};
use crate::run_answer;
use crate::run_comparison::asymmetry_document::build_histogram;
use longhaul_analysis::throughput::limiter_label;
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{
    AsymmetryCell, GoodputCurve, ScanAsymmetry, ScanCell, ScanConclusion, SearchMode,
    TransferSetting,
};
use longhaul_model::units::Bytes;
use std::fmt::Display;

/// Renders the report, from the recommendation to the caveats.
pub fn build_scan_document(report: &ScanReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    run_answer::answer_scan(&mut page, report);
    page.fact("scan", summarize_scan(report));
    page.fact("stopped", describe_stop(report));
    for conclusion in &report.analysis.directions {
        page.gap();
        write_direction(&mut page, report, conclusion);
    }
    if let Some(asymmetry) = &report.analysis.asymmetry {
        page.gap();
        page.details(|page| write_asymmetry(page, asymmetry));
    }
    page.conclude(&report.findings, &report.caveats)
}

fn write_direction(page: &mut ReportDocument, report: &ScanReport, conclusion: &ScanConclusion) {
    if report.plan.direction == RunDirection::Both {
        page.heading(
            3,
            if conclusion.forward { "FORWARD: client sends" } else { "REVERSE: server sends" },
        );
    }
    let server = report.run.responder.command_words();
    page.details(|page| scan_advice::write_recommendation(page, &server, conclusion));
    match report.plan.search {
        SearchMode::Guided => {
            write_probe_table(page, &report.observation.cells, conclusion);
        }
        SearchMode::Grid => write_grid(page, &report.observation.cells, conclusion),
    }
    page.details(|page| scan_advice::write_needs(page, conclusion));
}

/// Summarizes kind, direction and size of the scan.
fn summarize_scan(report: &ScanReport) -> String {
    let way = match report.plan.direction {
        RunDirection::Forward => "forward (client sends)",
        RunDirection::Reverse => "reverse (server sends)",
        RunDirection::Both => "both directions, one after the other",
    };
    let analysis = &report.analysis;
    let run = count_of(u64::from(analysis.probes_run), "probe");
    let span = setting_format::format_span(report.run.duration_us);
    match report.plan.search {
        SearchMode::Guided => format!(
            "guided, {way}: {run} in {span}, instead of a grid of {}",
            format_grouped(u64::from(analysis.grid_cells))
        ),
        SearchMode::Grid => {
            let cells = count_of(u64::from(analysis.grid_cells), "cell");
            format!("grid of {cells}, {way}: {run} in {span}")
        }
    }
}

/// Describes why the scan ended.
fn describe_stop(report: &ScanReport) -> &str {
    match report.analysis.stopped_by.as_str() {
        "settled" => "no untried setting is expected to be faster",
        "grid_done" => "all cells are measured",
        "probes" => "the next probe would exceed the probe budget",
        "time" => "the next probe would exceed the time budget",
        "bytes" => "the next probe would exceed the payload budget",
        "far_end_gone" => "early: the server disconnected",
        "interrupted" => "early: interrupted",
        "application" => "the application limits the rate: no network setting helps",
        "policed" => "a policer limits the rate: no setting exceeds it",
        "shaped" => "a shaper limits the rate: no setting exceeds it",
        other => other,
    }
}

/// The maximum number of settings listed.
const MAX_ROWS: usize = 24;
/// Writes the asymmetry of each setting, its histogram and its cause.
fn write_asymmetry(page: &mut ReportDocument, asymmetry: &ScanAsymmetry) {
    page.heading(3, "ASYMMETRY: (forward - reverse) / (forward + reverse)");
    page.fact("median", format_difference(asymmetry.median_ratio, 3));
    page.facts("cause", &asymmetry.cause);
    let limits = |cell: &AsymmetryCell| {
        let [one, other] = [cell.forward_limited_by, cell.reverse_limited_by].map(limiter_label);
        if one == other { one.to_owned() } else { format!("{one}/{other}") }
    };
    page.table(
        DocumentTable::from_rows(asymmetry.cells.iter().take(MAX_ROWS))
            .text("streams x window", |cell| setting_format::format_setting(&cell.setting))
            .number("forward", |cell| format_rate(cell.forward_bps))
            .number("reverse", |cell| format_rate(cell.reverse_bps))
            .number("asymmetry", |cell| format_difference(cell.asymmetry_ratio, 3))
            .text("limited by", limits)
            .finish(),
    );
    if asymmetry.cells.len() > MAX_ROWS {
        let more = asymmetry.cells.len() - MAX_ROWS;
        page.faint(format!("{more} more settings; --json lists all"));
    }
    if let Some(table) = build_histogram(&asymmetry.histogram) {
        page.gap();
        page.table(table);
    }
}

/// Writes the table of one direction.
fn write_probe_table(page: &mut ReportDocument, cells: &[ScanCell], conclusion: &ScanConclusion) {
    let own = || cells.iter().filter(|c| c.forward == conclusion.forward);
    let greatest = own().filter_map(|cell| cell.goodput_bps).max();
    let unit = RateUnit::for_max(greatest.unwrap_or(0));
    let limiter = |cell: &ScanCell| cell.limited_by.map_or(ABSENT, limiter_label);
    let table = DocumentTable::from_rows(own())
        .number("#", |it| {
            format!(
                "{}{}",
                it.index.saturating_add(1),
                setting_format::choice_mark(&it.setting, conclusion)
            )
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

/// Renders header and lines; names contain the units, and an empty field was not measured.
pub fn render_scan_csv(scan: &ScanReport) -> String {
    let mut text = String::new();
    let header: Vec<String> = FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    push_csv_line(&mut text, &header);
    for cell in &scan.observation.cells {
        let fields: Vec<String> = FIELDS.iter().map(|(_, of)| of(scan, cell)).collect();
        push_csv_line(&mut text, &fields);
    }
    text
}

/// One column: its name, and its value.
type ScanCsvField = (&'static str, fn(&ScanReport, &ScanCell) -> String);

const FIELDS: [ScanCsvField; 29] = [
    ("scan_id", |scan, _| scan.run.id.clone()),
    ("initiator", |scan, _| scan.run.initiator.host.clone()),
    ("responder", |scan, _| scan.run.responder.host.clone()),
    ("index", |_, cell| cell.index.to_string()),
    ("direction", |_, cell| direction_word(cell).to_owned()),
    ("streams", |_, cell| cell.setting.streams.to_string()),
    ("window_bytes", |_, cell| format_optional(cell.setting.window_bytes)),
    ("congestion_control_asked", |_, cell| {
        format_optional(cell.setting.congestion_control.as_ref())
    }),
    ("pacing_bps", |_, cell| format_optional(cell.setting.pacing_bps)),
    ("sentinel", |_, cell| cell.sentinel.to_string()),
    ("at_us", |_, cell| cell.at_us.to_string()),
    ("duration_us", |_, cell| cell.duration_us.to_string()),
    ("goodput_bps", |_, cell| format_optional(cell.goodput_bps)),
    ("goodput_low_bps", |_, cell| format_optional(cell.goodput_interval_bps.map(|[low, _]| low))),
    ("goodput_high_bps", |_, cell| {
        format_optional(cell.goodput_interval_bps.map(|[_, high]| high))
    }),
    ("limited_by", |_, cell| format_optional(cell.limited_by)),
    ("confidence_ratio", |_, cell| format_optional(cell.confidence_ratio)),
    ("next_limit", |_, cell| format_optional(cell.next_limit.as_ref().map(|bound| bound.limiter))),
    ("next_limit_bps", |_, cell| {
        format_optional(cell.next_limit.as_ref().map(|bound| bound.rate_bps))
    }),
    ("idle_rtt_us", |_, cell| format_optional(cell.idle_rtt_us)),
    ("loaded_rtt_us", |_, cell| format_optional(cell.loaded_rtt_us)),
    ("data_segments_sent", |_, cell| format_optional(cell.data_segments_sent)),
    ("retransmitted_segments", |_, cell| format_optional(cell.retransmitted_segments)),
    ("receiver_bytes", |_, cell| format_optional(cell.receiver_bytes)),
    ("granted_send_bytes", |_, cell| format_optional(cell.granted_send_bytes)),
    ("granted_receive_bytes", |_, cell| format_optional(cell.granted_receive_bytes)),
    ("congestion_control", |_, cell| format_optional(cell.congestion_control.as_ref())),
    ("run_id", |_, cell| format_optional(cell.run_id.as_ref())),
    ("remark", |_, cell| format_remark(cell)),
];

fn direction_word(cell: &ScanCell) -> &'static str {
    if cell.forward { "forward" } else { "reverse" }
}

/// Formats a value, or returns an empty field.
pub fn format_optional<T: Display>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns the reason why a probe failed or was chosen.
fn format_remark(cell: &ScanCell) -> String {
    let error = cell.error.as_ref().map(|error| format!("failed: {error}"));
    error.or_else(|| cell.why.clone()).unwrap_or_default()
}

/// Appends a line with quoted fields.
pub fn push_csv_line(text: &mut String, fields: &[String]) {
    let quoted: Vec<String> = fields.iter().map(|field| quote_field(field)).collect();
    text.push_str(&quoted.join(","));
    text.push_str("\r\n");
}

/// Quotes a field if necessary. Text that a spreadsheet would interpret as a formula gets an
/// apostrophe in front; our numbers never start like one.
fn quote_field(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guard = if formula { "'" } else { "" };
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{guard}{}\"", field.replace('"', "\"\""))
    } else {
        format!("{guard}{field}")
    }
}

/// The number of stream columns that fit.
const ACROSS: usize = 7;
/// The maximum number of failed cells listed.
const MAX_FAILED_CELLS: usize = 5;

/// Writes the tables of one direction, one per congestion control.
fn write_grid(page: &mut ReportDocument, cells: &[ScanCell], conclusion: &ScanConclusion) {
    let mut controls: Vec<&Option<String>> = Vec::new();
    for curve in &conclusion.curves {
        if !controls.contains(&&curve.congestion_control) {
            controls.push(&curve.congestion_control);
        }
    }
    let points = conclusion.curves.iter().flat_map(|curve| &curve.points);
    let unit = RateUnit::for_max(points.map(|point| point.goodput_bps).max().unwrap_or(0));
    for control in controls {
        let of_it = |curve: &&GoodputCurve| curve.congestion_control == *control;
        let curves: Vec<&GoodputCurve> = conclusion.curves.iter().filter(of_it).collect();
        page.gap();
        let name = control.as_deref().map_or_else(String::new, |name| format!(", {name}"));
        page.heading(3, format!("goodput in {}{name}: streams across", unit.name));
        for streams in streams_of(&curves).chunks(ACROSS) {
            write_grid_table(page, &curves, streams, conclusion, unit);
        }
    }
    page.faint("* recommended, + highest goodput, - not measured");
    write_failed_cells(page, cells, conclusion.forward);
}

fn streams_of(curves: &[&GoodputCurve]) -> Vec<u32> {
    let all = curves.iter().flat_map(|curve| &curve.points);
    let mut streams: Vec<u32> = all.map(|point| point.streams).collect();
    streams.sort_unstable();
    streams.dedup();
    streams
}

fn write_grid_table(
    page: &mut ReportDocument,
    curves: &[&GoodputCurve],
    streams: &[u32],
    conclusion: &ScanConclusion,
    unit: RateUnit,
) {
    let across = streams.iter().map(|n| right(format!("{n} ")));
    let mut table = DocumentTable::new([left("window")].into_iter().chain(across));
    for curve in curves {
        let cells = streams.iter().map(|streams| format_cell(curve, *streams, conclusion, unit));
        let window = setting_format::format_window(curve.window_bytes);
        table.row([window].into_iter().chain(cells));
    }
    page.table(table);
}

fn format_cell(
    curve: &GoodputCurve,
    streams: u32,
    conclusion: &ScanConclusion,
    unit: RateUnit,
) -> String {
    let point = curve.points.iter().find(|point| point.streams == streams);
    let text = point.map_or_else(|| ABSENT.to_owned(), |point| unit.short(point.goodput_bps));
    let setting = TransferSetting {
        window_bytes: curve.window_bytes,
        streams,
        congestion_control: curve.congestion_control.clone(),
        pacing_bps: None,
    };
    let mark = setting_format::choice_mark(&setting, conclusion);
    format!("{text}{mark}")
}

/// Writes the failed cells with their reasons.
fn write_failed_cells(page: &mut ReportDocument, cells: &[ScanCell], forward: bool) {
    let all: Vec<(&ScanCell, &String)> = cells
        .iter()
        .filter(|cell| cell.forward == forward)
        .filter_map(|cell| Some((cell, cell.error.as_ref()?)))
        .collect();
    for (cell, error) in all.iter().take(MAX_FAILED_CELLS) {
        page.item(
            "  failed: ",
            format!("{}: {error}", setting_format::format_setting(&cell.setting)),
        );
    }
    if all.len() > MAX_FAILED_CELLS {
        let more = all.len() - MAX_FAILED_CELLS;
        page.paragraph(format!("  failed: {more} more; --json lists all"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be_and_never_run_as_formulas() {
        for (field, want) in [
            ("far", "far"),
            ("8", "8"),
            ("", ""),
            ("a, b", "\"a, b\""),
            ("say \"no\"", "\"say \"\"no\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+1", "'+1"),
            ("-1", "'-1"),
        ] {
            assert_eq!(quote_field(field), want);
        }
    }
}
