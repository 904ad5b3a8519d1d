//! Parsing and formatting of durations.

use super::unit_number::{self, ParseUnitError};
use std::time::Duration;

const EXPECTED: &str =
    "a duration: a number with ns, us, ms, s, min, h, d, w (a bare number is seconds)";

/// Parses `86 ms`, `10s`, `1.5`, `2min`; a bare number is seconds, as in iperf.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    let parse = || {
        let (value, unit) = unit_number::split_unit(text)?;
        let nanos_each = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "" | "s" => 1e9,
            "min" | "m" => 60e9,
            "h" => 3600e9,
            "d" | "day" | "days" => 86_400e9,
            "w" | "week" | "weeks" => 604_800e9,
            _ => return None,
        };
        unit_number::scale_to_u64(value, nanos_each).map(Duration::from_nanos)
    };
    parse().ok_or_else(|| ParseUnitError { text: text.to_owned(), expected: EXPECTED })
}

/// Formats a duration with three significant digits in the unit that fits: `172 ms`, `2.5 s`, `31.2
/// µs`; no time is `0 s`.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos() as f64;
    let (value, unit) = match nanos {
        n if n >= 1e9 => (n / 1e9, "s"),
        n if n >= 1e6 => (n / 1e6, "ms"),
        n if n >= 1e3 => (n / 1e3, "µs"),
        0.0 => (0.0, "s"),
        n => (n, "ns"),
    };
    format!("{} {unit}", unit_number::format_significant(value))
}
