//! Formats times, values and untrusted names in sentences about events.
//!
//! Names and readings come from other hosts. They are reduced to one line and to characters that no
//! terminal or mail reader interprets.

use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::path::HopReply;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::sanitize::sanitize_line;
use longhaul_model::units::{Rate, format_duration};
use std::time::Duration;

/// The maximum length of a quoted name or reading.
const MAX_NAME_CHARS: usize = 64;

/// Sanitizes and truncates a name or reading from outside, as part of a sentence.
pub fn sanitize_name(text: &str) -> String {
    let mut short = sanitize_line(text, MAX_NAME_CHARS);
    if text.chars().nth(MAX_NAME_CHARS).is_some() {
        short.push_str("...");
    }
    short
}

/// Returns the name of a hop that answered, or else its address.
pub fn name_hop(answer: &HopReply) -> String {
    sanitize_name(answer.name.as_ref().unwrap_or(&answer.address))
}

pub fn describe_limiter_since(limiter: Limiter) -> String {
    format!("runs have been limited by {} since", name_limiter(limiter))
}

/// Formats a value with its unit: `250 Mbit/s`, `160 ms`, `1.2 %`, `17`.
pub fn format_quantity(quantity: PathQuantity, value: f64) -> String {
    if !value.is_finite() {
        return String::from("unknown");
    }
    match quantity.unit() {
        "bps" => format_rate(value),
        "us" => format_delay_us(value),
        "ratio" => format!("{} %", format_trimmed(value * 100.0, 2)),
        _ => format_trimmed(value, 1),
    }
}

fn format_trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub fn format_rate(bps: f64) -> String {
    Rate::bits_per_second(bps.max(0.0).round() as u64).to_string()
}

pub fn format_delay_us(us: f64) -> String {
    format_duration(Duration::from_nanos((us.max(0.0) * 1e3).round() as u64))
}

/// Formats a ratio as a change: `-40 %`, `+12 %`; a change from zero has no ratio.
pub fn format_change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return String::from("no ratio");
    }
    let percent = ((ratio - 1.0) * 100.0).round();
    if percent.abs() < 1.0 {
        return String::from("below 1 %");
    }
    format!("{percent:+.0} %")
}

/// Formats a time: `2003-06-11 22:45 UTC`.
pub fn format_time(us: i64) -> String {
    format_utc(us, "%Y-%m-%d %H:%M UTC")
}

/// Formats a date: `2003-06-11`.
pub fn format_date(us: i64) -> String {
    format_utc(us, "%Y-%m-%d")
}

/// A time beyond the calendar of jiff is shown as 1970.
fn format_utc(us: i64, format: &str) -> String {
    let time = jiff::Timestamp::from_microsecond(us).unwrap_or_default();
    time.strftime(format).to_string()
}

/// Formats the time of a change as far as it is known: `between 2003-06-11 22:45 and 23:10 UTC`.
pub fn format_time_span(between_us: [i64; 2]) -> String {
    let [from, to] = between_us.map(format_time);
    if from == to {
        return format!("at {from}");
    }
    let same_day = format_date(between_us[0]) == format_date(between_us[1]);
    let to = if same_day { to[11..].to_owned() } else { to };
    format!("between {} and {to}", from.trim_end_matches(" UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(format_time(0), "1970-01-01 00:00 UTC");
        assert_eq!(format_time(1_055_371_500_000_000), "2003-06-11 22:45 UTC");
        assert_eq!(format_date(0), "1970-01-01");
        assert_eq!(format_date(951_782_400_000_000), "2000-02-29");
        assert_eq!(format_date(1_795_392_000_000_000), "2026-11-23");
        assert_eq!(format_date(1_709_164_800_000_000), "2024-02-29");
        assert_eq!(format_time(-1), "1969-12-31 23:59 UTC");
        assert_eq!(format_date(4_107_542_400_000_000), "2100-03-01");
    }

    #[test]
    fn strangers_names_do_nothing() {
        let name = "gw\u{1b}[2J\u{7}\nBcc: all\u{202e}gpj\u{0}\u{85}";
        assert_eq!(sanitize_name(name), "gw\u{fffd}[2J\u{fffd}\u{fffd}Bcc: all\u{fffd}gpj\u{fffd}");
        assert!(sanitize_name(&"a".repeat(9_000)).len() < 70);
    }

    #[test]
    fn spans_name_the_day_once() {
        assert_eq!(format_time_span([0, 3_600_000_000]), "between 1970-01-01 00:00 and 01:00 UTC");
        assert_eq!(format_time_span([0, 0]), "at 1970-01-01 00:00 UTC");
    }

    #[test]
    fn values_carry_their_unit() {
        assert_eq!(format_quantity(PathQuantity::Goodput, 250e6), "250 Mbit/s");
        assert_eq!(format_quantity(PathQuantity::RttFloor, 160_000.0), "160 ms");
        assert_eq!(format_quantity(PathQuantity::Loss, 0.012), "1.2 %");
        assert_eq!(format_quantity(PathQuantity::Hops, 17.0), "17");
        assert_eq!(format_change(0.6), "-40 %");
        assert_eq!(format_change(1.004), "below 1 %");
    }
}
