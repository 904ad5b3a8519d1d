//! Formatting of numbers: digit groups and significant digits.

use longhaul_model::units::{Rate, TextRateUnit, format_duration};
use std::time::Duration;

pub use longhaul_model::units::{count_of, format_grouped};

/// The text for a value that was not measured.
pub const ABSENT: &str = "-";

/// Formats microseconds as seconds with three decimals: `30.001`.
pub fn format_seconds(us: u64) -> String {
    format!("{:.3}", us as f64 / 1e6)
}

/// Formats microseconds as milliseconds, with more decimals below 10 ms: `172.0`, `0.041`.
pub fn format_millis(us: u64) -> String {
    let value = us as f64 / 1e3;
    if value >= 10.0 { format!("{value:.1}") } else { format!("{value:.3}") }
}

/// Formats microseconds in the unit that fits: `172 ms`.
pub fn format_micros(us: u64) -> String {
    format_duration(Duration::from_micros(us))
}

pub fn format_rate(bps: u64) -> String {
    Rate::bits_per_second(bps).to_string()
}

/// Formats a share as a percentage with two significant digits: `97 %`, `0.0021 %`.
pub fn format_percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    match value {
        0.0 => "0 %".to_owned(),
        v if v >= 10.0 => format!("{v:.0} %"),
        v if v >= 0.1 => format!("{v:.1} %"),
        v => {
            let zeros = (-v.log10()).floor().clamp(0.0, 12.0) as usize;
            format!("{v:.*} %", zeros + 2)
        }
    }
}

/// Formats a difference with its sign, which rounded zeros do not have negative.
pub fn format_difference(value: f64, decimals: usize) -> String {
    let text = format!("{value:+.decimals$}");
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'+' | b'0' | b'.'));
    if is_zero { text.replace('-', "+") } else { text }
}

/// Joins the parts that are there.
pub fn join_parts<const N: usize>(separator: &str, parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(separator)
}

/// Returns `None` for an empty text.
pub fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Formats an interval in parentheses, after a space; nothing if there is none.
pub fn format_interval<T>(interval: Option<[T; 2]>, format: impl Fn(T) -> String) -> String {
    let ends = interval.map(|ends| ends.map(format));
    ends.map_or_else(String::new, |[low, high]| format!(" ({low} to {high})"))
}

/// Adds up counts of a report, which may be impossible: the sum is at most `u64::MAX`.
pub fn sum_counts(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Adds up counts as [`sum_counts`]; `None` if any is absent.
pub fn sum_known_counts(counts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    counts.into_iter().try_fold(0, |sum: u64, count| Some(sum.saturating_add(count?)))
}

/// Formats a value, or returns [`ABSENT`].
pub fn or_absent<T>(value: Option<T>, format: impl Fn(T) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), format)
}

/// A common unit for a column or pair of rates, which makes them easy to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateUnit {
    pub name: &'static str,
    pub bps: f64,
}

impl RateUnit {
    /// Returns the unit in which `greatest_bps` has one to three digits before the point, or the unit
    /// that the user selected.
    pub fn for_max(greatest_bps: u64) -> Self {
        const UNITS: [RateUnit; 4] = [
            RateUnit { name: "Gbit/s", bps: 1e9 },
            RateUnit { name: "Mbit/s", bps: 1e6 },
            RateUnit { name: "kbit/s", bps: 1e3 },
            RateUnit { name: "bit/s", bps: 1.0 },
        ];
        if let Some(TextRateUnit { name, bps }) = TextRateUnit::selected() {
            return RateUnit { name, bps: bps as f64 };
        }
        *UNITS.iter().find(|unit| greatest_bps as f64 >= unit.bps).unwrap_or(&UNITS[3])
    }

    /// Formats a rate with three decimals, for columns.
    pub fn number(self, bps: u64) -> String {
        format!("{:.3}", bps as f64 / self.bps)
    }

    /// Formats a rate with four significant digits, for sentences.
    pub fn short(self, bps: u64) -> String {
        let value = bps as f64 / self.bps;
        let decimals = match value {
            v if v >= 99.95 => 1,
            v if v >= 9.995 => 2,
            _ => 3,
        };
        format!("{value:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_keep_their_digits() {
        for (ratio, text) in
            [(0.0, "0 %"), (0.97, "97 %"), (0.0123, "1.2 %"), (0.000_021, "0.0021 %")]
        {
            assert_eq!(format_percent(ratio), text);
        }
    }

    #[test]
    fn no_zero_is_negative() {
        for (value, text) in [(-0.0004, "+0.000"), (-0.0, "+0.000"), (-0.0006, "-0.001")] {
            assert_eq!(format_difference(value, 3), text);
        }
    }

    #[test]
    fn a_column_takes_the_unit_of_its_greatest_rate() {
        let unit = RateUnit::for_max(6_178_000_000);
        assert_eq!((unit.name, unit.number(652_000_000)), ("Gbit/s", "0.652".to_owned()));
        assert_eq!(RateUnit::for_max(0).name, "bit/s");
    }
}
