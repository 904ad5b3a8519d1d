//! Units: bytes, rates and durations; counts with their nouns.
//!
//! Rates print with decimal prefixes (`6.25 Gbit/s`), memory with IEC ones (`64 KiB`), and a bare
//! `K` is never printed. Parsing accepts what users of iperf type: a bare `K`, `M` or `G` is a
//! power of 1024 in a size and a power of 1000 in a rate.

mod byte_size;
mod rate;

use std::fmt;
use std::time::Duration;

pub use byte_size::Bytes;
pub use rate::{Rate, TextRateUnit};

/// Formats a number with digit groups: `22124999999` → `22,124,999,999`.
pub fn format_grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 stream`, `9 streams`.
pub fn count_of(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", format_grouped(number)) }
}

/// Starts a text with a capital letter.
pub fn capitalize_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The rejected text, and a description of what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseUnitError {
    pub text: String,
    pub expected: &'static str,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl std::error::Error for ParseUnitError {}

/// Splits `"2.5 Gbit/s"` into `(2.5, "Gbit/s")`; `None` unless a finite, non-negative number leads.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let value: f64 = text[..end].replace('_', "").parse().ok()?;
    value.is_finite().then(|| (value, text[end..].trim()))
}

/// Returns `value × factor`, rounded; `None` if it does not fit in 64 bits.
fn scale_to_u64(value: f64, factor: f64) -> Option<u64> {
    let scaled = (value * factor).round();
    (0.0..18_446_744_073_709_551_616.0).contains(&scaled).then_some(scaled as u64)
}

/// Formats a number with at least three significant digits and no trailing zeros: `6.25`, `941`,
/// `0.5`.
fn format_significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 1,
        v if v >= 9.995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

const EXPECTED: &str =
    "a duration: a number with ns, us, ms, s, min, h, d, w (a bare number is seconds)";

/// Parses `86 ms`, `10s`, `1.5`, `2min`; a bare number is seconds, as in iperf.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    let parse = || {
        let (value, unit) = split_unit(text)?;
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
        scale_to_u64(value, nanos_each).map(Duration::from_nanos)
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
    format!("{} {unit}", format_significant(value))
}

/// Formats an exact size as options take it: `64M`, `1500`.
pub fn format_option_size(bytes: u64) -> String {
    for (letter, shift) in [("G", 30), ("M", 20), ("K", 10)] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{letter}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod number_tests {
    use super::*;

    #[test]
    fn sizes_are_exact_as_options_take_them() {
        for (bytes, text) in [(1 << 30, "1G"), (3 << 20, "3M"), (65_537, "65537"), (0, "0")] {
            assert_eq!(format_option_size(bytes), text);
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (498_587_545_600, "498,587,545,600")]
        {
            assert_eq!(format_grouped(number), text);
        }
    }
}
