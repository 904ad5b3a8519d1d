//! Parses times and periods, absolute or relative to now, in UTC.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, ToSpan, Unit};
use longhaul_model::report::v1::TimePeriod;
use longhaul_model::sanitize::sanitize_line;

const EXPECTED: &str = "expected a time such as 2026-11-21T21:56:00Z, 2026-11-21, yesterday, \
                        today, now, or 2h (ago)";
const EXPECTED_PERIOD: &str = "expected FROM..TO, such as 3d..1d, 2026-11-20..2026-11-21, \
                               yesterday..now; or a date";

/// Parses a time; `2h` and `90 min` mean that long ago.
pub fn resolve_moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    let wrong = || format!("`{}`: {EXPECTED}", shorten_input(text));
    let days_ago = match text {
        "now" => return Ok(now),
        "today" => Some(0),
        "yesterday" => Some(1),
        _ => None,
    };
    if let Some(days) = days_ago {
        let day = now.to_zoned(TimeZone::UTC).date();
        return utc_midnight(day.checked_sub(days.days()).map_err(|_| wrong())?).ok_or_else(wrong);
    }
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    if let Ok(time) = text.parse::<DateTime>() {
        // A date alone is parsed as its midnight.
        return time.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()).map_err(|_| wrong());
    }
    let ago = text.strip_suffix("ago").unwrap_or(text).trim();
    let ago = parse_span(ago).ok_or_else(wrong)?;
    now.checked_sub(ago).map_err(|_| wrong())
}

const EXPECTED_COMING: &str =
    "expected a time such as 06:40, 2026-11-30 06:40, or 12h (from now), in UTC";

/// Parses a time to come: `06:40` is the next such time, `12h` is that long from now.
pub fn resolve_coming_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    let wrong = || format!("`{}`: {EXPECTED_COMING}", shorten_input(text));
    if let Some(span) = parse_span(text) {
        return now.checked_add(span).map_err(|_| wrong());
    }
    // `parse` would also read `0640`, and a date as its midnight.
    if text.contains(':') && text.len() <= "06:40:00".len() {
        let time: Time = text.parse().map_err(|_| wrong())?;
        let zoned = now.to_zoned(TimeZone::UTC).with().time(time).build().map_err(|_| wrong())?;
        let today = zoned.timestamp();
        return if today > now {
            Ok(today)
        } else {
            today.checked_add(24.hours()).map_err(|_| wrong())
        };
    }
    resolve_moment(text, now).map_err(|_| wrong())
}

/// Parses `FROM..TO`, `FROM..` (until now), or one day. The end must be after the beginning.
pub fn resolve_period(text: &str, now: Timestamp) -> Result<TimePeriod, String> {
    let (begin, end) = match text.split_once("..") {
        Some((from, to)) => {
            if from.trim().is_empty() {
                return Err(EXPECTED_PERIOD.to_owned());
            }
            let to = if to.trim().is_empty() { "now" } else { to };
            (resolve_moment(from, now)?, resolve_moment(to, now)?)
        }
        None => resolve_day(text.trim(), now).ok_or(EXPECTED_PERIOD)?,
    };
    if begin >= end {
        return Err(format!("the end ({end}) is before the start ({begin}); expected FROM..TO"));
    }
    Ok(TimePeriod { begin_us: begin.as_microsecond(), end_us: end.as_microsecond() })
}

/// Parses a length of time: days and weeks as well as the units of durations.
pub fn parse_span_us(text: &str) -> Result<i64, String> {
    let wrong =
        || format!("`{}`: expected a length such as 90 min, 2h, 3d, 1w", shorten_input(text));
    match parse_span(text.trim()) {
        Some(span) if !span.is_zero() => Ok(span.as_micros() as i64),
        _ => Err(wrong()),
    }
}

fn resolve_day(text: &str, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let begin = match text {
        "today" | "yesterday" => resolve_moment(text, now).ok()?,
        _ => utc_midnight(text.parse::<Date>().ok()?)?,
    };
    let end = begin.checked_add(24.hours()).ok()?;
    Some((begin, end))
}

fn utc_midnight(day: Date) -> Option<Timestamp> {
    let zoned = day.to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp())
}

/// Parses a positive length of time, such as `90 min`, `3d` or `2 weeks`.
fn parse_span(text: &str) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    let total = (Unit::Microsecond, SpanRelativeTo::days_are_24_hours());
    let us = span.total(total).ok().filter(|us| *us >= 0.0)?;
    Some(SignedDuration::from_micros(us as i64))
}

fn shorten_input(text: &str) -> String {
    sanitize_line(text, 40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Timestamp {
        "2026-11-22T18:30:00Z".parse().unwrap()
    }

    #[test]
    fn moments_are_absolute_or_count_from_now() {
        for (text, expected) in [
            ("now", "2026-11-22T18:30:00Z"),
            ("today", "2026-11-22T00:00:00Z"),
            ("yesterday", "2026-11-21T00:00:00Z"),
            ("2h", "2026-11-22T16:30:00Z"),
            ("90 min", "2026-11-22T17:00:00Z"),
            ("3d", "2026-11-19T18:30:00Z"),
            ("2 days ago", "2026-11-20T18:30:00Z"),
            ("1w", "2026-11-15T18:30:00Z"),
            ("2003-06-11", "2003-06-11T00:00:00Z"),
            ("2003-06-11 22:45", "2003-06-11T22:45:00Z"),
            ("2003-06-11T15:45:00-07:00", "2003-06-11T22:45:00Z"),
        ] {
            assert_eq!(resolve_moment(text, now()), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in ["", "soon", "2", "h", "-2h", "2003-13-01", "9999999999d", "\u{1b}[2J"] {
            let wrong = resolve_moment(text, now()).unwrap_err();
            assert!(!wrong.contains('\u{1b}'), "{wrong:?}");
        }
    }

    #[test]
    fn times_to_come_are_the_next_ones_or_count_from_now() {
        for (text, expected) in [
            ("18:31", "2026-11-22T18:31:00Z"),
            ("18:30", "2026-11-23T18:30:00Z"),
            ("06:40", "2026-11-23T06:40:00Z"),
            ("12h", "2026-11-23T06:30:00Z"),
            ("2026-11-30 06:40", "2026-11-30T06:40:00Z"),
            ("2026-11-21T21:56:00Z", "2026-11-21T21:56:00Z"),
        ] {
            assert_eq!(resolve_coming_time(text, now()), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in ["", "25:00", "6.40", "soon", "9999999999d"] {
            assert!(resolve_coming_time(text, now()).is_err(), "{text}");
        }
    }

    #[test]
    fn periods_have_a_begin_and_a_later_end() {
        let of =
            |text: &str| resolve_period(text, now()).map(|p| (p.end_us - p.begin_us) / 60_000_000);
        assert_eq!(of("3h..1h"), Ok(120));
        assert_eq!(of("2h.."), Ok(120));
        assert_eq!(of("yesterday"), Ok(1440));
        assert_eq!(of("2003-06-11"), Ok(1440));
        assert_eq!(of("2003-06-01..2003-06-11"), Ok(14_400));
        for text in ["", "..", "..1h", "1h..2h", "now..now", "tomorrow"] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_know_days_and_weeks() {
        assert_eq!(parse_span_us("2h"), Ok(7_200_000_000));
        assert_eq!(parse_span_us("1w"), Ok(604_800_000_000));
        assert!(parse_span_us("0s").is_err() && parse_span_us("week").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (resolve_moment(&text, now()), resolve_period(&text, now()), parse_span_us(&text));
            let _ = resolve_coming_time(&text, now());
        }
    }
}
