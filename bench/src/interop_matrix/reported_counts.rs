//! Reads the reported byte counts of both ends from the client's output.

use super::option_rows::OptionRow;
use serde_json::Value;

/// The bytes of one direction, as reported by the ends.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReportedCounts {
    /// The server sent them.
    pub is_reverse: bool,
    /// Reported by the sender.
    pub sent: Option<f64>,
    /// Reported by the receiver.
    pub received: Option<f64>,
    /// Retransmits, as reported by the sender.
    pub retransmits: f64,
    /// The payload of lost datagrams, as reported by the receiver.
    pub lost_bytes: f64,
}

/// Reads the counts of each direction from the client's output, which is JSON.
pub fn parse_reported_counts(row: OptionRow, output: &str) -> Result<Vec<ReportedCounts>, String> {
    let whole: Value = serde_json::from_str(output)
        .map_err(|error| format!("no JSON ({error}): {}", shorten_output(output)))?;
    if let Some(error) = whole["error"].as_str() {
        return Err(error.to_owned());
    }
    let first = ReportedCounts { is_reverse: row.has("-R"), ..read_totals(&whole, "", row) };
    if first.sent.is_none() && first.received.is_none() {
        return Err(format!("no byte counts in `end`: {}", whole["end"]));
    }
    let mut counts = vec![first];
    if row.has("--bidir") {
        let reverse = read_totals(&whole, "_bidir_reverse", row);
        counts.push(ReportedCounts { is_reverse: true, ..reverse });
    }
    Ok(counts)
}

/// Returns the totals whose names have this ending.
fn read_totals(whole: &Value, ending: &str, row: OptionRow) -> ReportedCounts {
    let end = &whole["end"];
    let bytes = |name: &str| end[format!("{name}{ending}")]["bytes"].as_f64();
    let omitted = read_omitted_bytes(whole, ending);
    let (sent, received) = if row.is_udp() {
        // Before 3.17 datagrams have one sum: of what was sent, with what was lost.
        let sent = bytes("sum_sent").or_else(|| bytes("sum"));
        (sent, bytes("sum_received").filter(|bytes| *bytes > 0.0))
    } else {
        (bytes("sum_sent"), bytes("sum_received"))
    };
    let sum = &end[format!("sum{ending}")];
    let number = |name: &str| sum[name].as_f64().unwrap_or_default();
    let datagram = number("bytes") / number("packets").max(1.0);
    ReportedCounts {
        is_reverse: false,
        lost_bytes: number("lost_packets").max(0.0) * datagram,
        sent: sent.map(|bytes| bytes + omitted),
        received: received.map(|bytes| bytes + omitted),
        retransmits: end[format!("sum_sent{ending}")]["retransmits"]
            .as_f64()
            .filter(|count| *count < 1e9)
            .unwrap_or_default(),
    }
}

/// Returns the bytes of the omitted seconds, which only this end reports.
fn read_omitted_bytes(whole: &Value, ending: &str) -> f64 {
    let intervals = whole["intervals"].as_array().into_iter().flatten();
    let sums = intervals.map(|interval| &interval[format!("sum{ending}")]);
    let left_out = sums.filter(|sum| sum["omitted"] == true);
    left_out.filter_map(|sum| sum["bytes"].as_f64()).sum()
}

/// Returns the first 160 characters of a program's output, on one line.
pub fn shorten_output(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARD: OptionRow = OptionRow { text: "-t 2" };
    const BOTH: OptionRow = OptionRow { text: "-t 2 --bidir" };

    #[test]
    fn both_ends_of_a_json_are_read() {
        let text = r#"{"end":{"sum_sent":{"bytes":1000,"retransmits":2},"sum_received":{"bytes":900},
            "sum_sent_bidir_reverse":{"bytes":70},"sum_received_bidir_reverse":{"bytes":60}}}"#;
        let claims = parse_reported_counts(BOTH, text).expect("claims");
        let counts = |is_reverse, sent, received, retransmits| ReportedCounts {
            is_reverse,
            sent: Some(sent),
            received: Some(received),
            retransmits,
            lost_bytes: 0.0,
        };
        assert_eq!(claims, [counts(false, 1000.0, 900.0, 2.0), counts(true, 70.0, 60.0, 0.0)]);
    }

    #[test]
    fn omitted_seconds_are_part_of_what_passed() {
        let text = r#"{"intervals":[{"sum":{"bytes":5,"omitted":true}},{"sum":{"bytes":7,"omitted":false}}],
            "end":{"sum_sent":{"bytes":7},"sum_received":{"bytes":6}}}"#;
        let claims = parse_reported_counts(FORWARD, text).expect("claims");
        assert_eq!((claims[0].sent, claims[0].received), (Some(12.0), Some(11.0)));
    }

    #[test]
    fn an_error_and_an_empty_end_are_no_claims() {
        let error = parse_reported_counts(FORWARD, r#"{"error":"the server is busy"}"#);
        assert_eq!(error, Err("the server is busy".to_owned()));
        assert!(parse_reported_counts(FORWARD, r#"{"end":{}}"#).is_err());
        assert!(parse_reported_counts(FORWARD, "").is_err());
    }
}
