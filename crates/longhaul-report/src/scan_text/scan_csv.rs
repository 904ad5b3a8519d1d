//! CSV of a scan (RFC 4180), one line per probe.

use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::scan::ScanCell;
use std::fmt::Display;

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
