//! Formats one line of an interval or a total.

use super::text_units::{RateFormat, format_rate, format_transfer};

/// The line between intervals of several streams, and before the totals.
pub const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";

/// The stream or sum that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineId {
    Stream(i64),
    Sum,
}

impl LineId {
    pub(super) fn text(self) -> String {
        match self {
            LineId::Stream(id) => format!("[{id:>3}]"),
            LineId::Sum => "[SUM]".to_owned(),
        }
    }
}

/// The columns after the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LineTail {
    /// No columns: a receiver's bytes.
    Bytes,
    /// Retransmits, and the congestion window if the line is for one stream.
    Retransmits { segments: u64, cwnd: Option<u64> },
    /// Datagrams sent; `wide`: under the header of both directions.
    Sent { datagrams: u64, wide: bool },
    /// Datagrams received, and those expected.
    Received {
        jitter_ms: f64,
        lost: i64,
        datagrams: u64,
    },
}

/// Formats one line with its newline, such as `[  5]   0.00-1.00   sec   946 MBytes  7.88 Gbits/sec
/// 5   2.00 MBytes       `.
///
/// `role` is empty or a tag such as `[TX-C]`; `last` is empty, `(omitted)`, `sender` or `receiver`.
pub fn format_line(
    unit: RateFormat,
    (id, role): (LineId, &str),
    (from_s, to_s): (f64, f64),
    (bytes, seconds): (u64, f64),
    (tail, last): (LineTail, &str),
) -> String {
    let per_second = if seconds > 0.0 {
        bytes as f64 / seconds
    } else {
        0.0
    };
    let front = format!(
        "{}{role} {from_s:6.2}-{to_s:<6.2} sec  {}  {}/sec",
        id.text(),
        format_transfer(bytes),
        format_rate(unit, per_second)
    );
    let behind = match tail {
        LineTail::Bytes => " ".repeat(18),
        LineTail::Retransmits {
            segments,
            cwnd: Some(cwnd),
        } => format!("  {segments:3}   {}       ", format_transfer(cwnd)),
        LineTail::Retransmits {
            segments,
            cwnd: None,
        } => format!("  {segments:3}             "),
        LineTail::Sent { datagrams, wide } => {
            let gap = if wide {
                " ".repeat(12)
            } else {
                "  ".to_owned()
            };
            format!("{gap}{datagrams}  ")
        }
        LineTail::Received {
            jitter_ms,
            lost,
            datagrams,
        } => {
            let share = format_percent(lost, datagrams);
            format!("  {jitter_ms:5.3} ms  {lost}/{datagrams} ({share}%)  ")
        }
    };
    format!("{front}{behind}{last}\n")
}

/// Formats a percentage with two significant digits, like C's `%.2g`.
fn format_percent(lost: i64, datagrams: u64) -> String {
    if datagrams == 0 {
        return "0".to_owned();
    }
    format_two_digits(100.0 * lost as f64 / datagrams as f64)
}

fn format_two_digits(value: f64) -> String {
    let scientific = format!("{value:.1e}");
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.split_once('.') {
        Some((whole, part)) => match part.trim_end_matches('0') {
            "" => whole.to_owned(),
            rest => format!("{whole}.{rest}"),
        },
        None => text.to_owned(),
    };
    if (-4..2).contains(&power) {
        let places = usize::try_from(1 - power).unwrap_or(0);
        return trimmed(&format!("{value:.places$}"));
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), power.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_two_digits_as_c_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (100.0, "1e+02"),
            (12.345, "12"),
            (5.0, "5"),
            (5.25, "5.2"),
            (0.05, "0.05"),
            (0.000_123, "0.00012"),
            (0.000_012_3, "1.2e-05"),
            (-3.3, "-3.3"),
        ] {
            assert_eq!(format_two_digits(value), text);
        }
        assert_eq!(format_percent(0, 0), "0");
        assert_eq!(format_percent(1, 8), "12");
    }

    #[test]
    fn each_kind_of_line_is_the_one_that_3_12_prints() {
        let shown = |id, role, tail, last| {
            let bytes = 991_958_000;
            format_line(
                RateFormat::Adaptive,
                (id, role),
                (0.0, 1.0),
                (bytes, 1.0),
                (tail, last),
            )
        };
        let resent = |cwnd| LineTail::Retransmits { segments: 5, cwnd };
        let received = LineTail::Received {
            jitter_ms: 0.0123,
            lost: 1,
            datagrams: 39,
        };
        let stream = LineId::Stream(5);
        for (line, text) in [
            (
                shown(stream, "", resent(Some(2 << 20)), ""),
                "[  5]   0.00-1.00   sec   946 MBytes  7.94 Gbits/sec    5   2.00 MBytes       \n",
            ),
            (
                shown(LineId::Sum, "", resent(None), "(omitted)"),
                "[SUM]   0.00-1.00   sec   946 MBytes  7.94 Gbits/sec    5             (omitted)\n",
            ),
            (
                shown(stream, "[RX-C]", LineTail::Bytes, "receiver"),
                "[  5][RX-C]   0.00-1.00   sec   946 MBytes  7.94 Gbits/sec                  receiver\n",
            ),
            (
                shown(
                    stream,
                    "",
                    LineTail::Sent {
                        datagrams: 20,
                        wide: false,
                    },
                    "",
                ),
                "[  5]   0.00-1.00   sec   946 MBytes  7.94 Gbits/sec  20  \n",
            ),
            (
                shown(
                    stream,
                    "[TX-C]",
                    LineTail::Sent {
                        datagrams: 20,
                        wide: true,
                    },
                    "",
                ),
                "[  5][TX-C]   0.00-1.00   sec   946 MBytes  7.94 Gbits/sec            20  \n",
            ),
            (
                shown(stream, "", received, "sender"),
                "[  5]   0.00-1.00   sec   946 MBytes  7.94 Gbits/sec  0.012 ms  1/39 (2.6%)  sender\n",
            ),
        ] {
            assert_eq!(line, text);
        }
    }
}
