//! CSV of a scan (RFC 4180), one line per probe.

use longhaul_model::report::v1::Scan;
use longhaul_model::report::v1::scan::Cell;
use std::fmt::Display;

/// Renders header and lines; names contain the units, and an empty field was not measured.
pub fn table(scan: &Scan) -> String {
    let mut text = String::new();
    let header: Vec<String> = FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    line(&mut text, &header);
    for cell in &scan.observation.cells {
        let fields: Vec<String> = FIELDS.iter().map(|(_, of)| of(scan, cell)).collect();
        line(&mut text, &fields);
    }
    text
}

/// One column: its name, and its value.
type Field = (&'static str, fn(&Scan, &Cell) -> String);

const FIELDS: [Field; 29] = [
    ("scan_id", |scan, _| scan.run.id.clone()),
    ("initiator", |scan, _| scan.run.initiator.host.clone()),
    ("responder", |scan, _| scan.run.responder.host.clone()),
    ("index", |_, cell| cell.index.to_string()),
    ("direction", |_, cell| way(cell).to_owned()),
    ("streams", |_, cell| cell.setting.streams.to_string()),
    ("window_bytes", |_, cell| some(cell.setting.window_bytes)),
    ("congestion_control_asked", |_, cell| {
        some(cell.setting.congestion_control.as_ref())
    }),
    ("pacing_bps", |_, cell| some(cell.setting.pacing_bps)),
    ("sentinel", |_, cell| cell.sentinel.to_string()),
    ("at_us", |_, cell| cell.at_us.to_string()),
    ("duration_us", |_, cell| cell.duration_us.to_string()),
    ("goodput_bps", |_, cell| some(cell.goodput_bps)),
    ("goodput_low_bps", |_, cell| {
        some(cell.goodput_interval_bps.map(|[low, _]| low))
    }),
    ("goodput_high_bps", |_, cell| {
        some(cell.goodput_interval_bps.map(|[_, high]| high))
    }),
    ("limited_by", |_, cell| some(cell.limited_by)),
    ("confidence_ratio", |_, cell| some(cell.confidence_ratio)),
    ("next_limit", |_, cell| {
        some(cell.next_limit.as_ref().map(|bound| bound.limiter))
    }),
    ("next_limit_bps", |_, cell| {
        some(cell.next_limit.as_ref().map(|bound| bound.rate_bps))
    }),
    ("idle_rtt_us", |_, cell| some(cell.idle_rtt_us)),
    ("loaded_rtt_us", |_, cell| some(cell.loaded_rtt_us)),
    ("data_segments_sent", |_, cell| {
        some(cell.data_segments_sent)
    }),
    ("retransmitted_segments", |_, cell| {
        some(cell.retransmitted_segments)
    }),
    ("receiver_bytes", |_, cell| some(cell.receiver_bytes)),
    ("granted_send_bytes", |_, cell| {
        some(cell.granted_send_bytes)
    }),
    ("granted_receive_bytes", |_, cell| {
        some(cell.granted_receive_bytes)
    }),
    ("congestion_control", |_, cell| {
        some(cell.congestion_control.as_ref())
    }),
    ("run_id", |_, cell| some(cell.run_id.as_ref())),
    ("remark", |_, cell| remark(cell)),
];

fn way(cell: &Cell) -> &'static str {
    if cell.forward { "forward" } else { "reverse" }
}

/// Formats a value, or returns an empty field.
pub fn some<T: Display>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns the reason why a probe failed or was chosen.
fn remark(cell: &Cell) -> String {
    let error = cell.error.as_ref().map(|error| format!("failed: {error}"));
    error.or_else(|| cell.why.clone()).unwrap_or_default()
}

/// Appends a line with quoted fields.
pub fn line(text: &mut String, fields: &[String]) {
    let quoted: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    text.push_str(&quoted.join(","));
    text.push_str("\r\n");
}

/// Quotes a field if necessary. Text that a spreadsheet would interpret as a formula gets an
/// apostrophe in front; our numbers never start like one.
fn quoted(field: &str) -> String {
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
            assert_eq!(quoted(field), want);
        }
    }
}
