//! The beginning of a period: a time or a day, in UTC.

use jiff::{Timestamp, civil::Date, tz::TimeZone};

/// Parses an RFC 3339 time, or a date, which means its midnight.
pub fn parse_since(text: &str) -> Result<Timestamp, String> {
    const EXPECTED: &str = "expected 2026-11-21, or a time such as 2026-11-21T21:56:00Z (UTC)";
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let date: Date = text.parse().map_err(|_| EXPECTED.to_owned())?;
    let midnight = date.to_zoned(TimeZone::UTC);
    midnight
        .map(|zoned| zoned.timestamp())
        .map_err(|_| EXPECTED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight() {
        for (text, moment) in [
            ("2003-06-11", "2003-06-11T00:00:00Z"),
            ("2003-06-11T22:45:00Z", "2003-06-11T22:45:00Z"),
            ("2003-06-11T15:45:00-07:00", "2003-06-11T22:45:00Z"),
        ] {
            assert_eq!(parse_since(text), Ok(moment.parse().unwrap()), "{text}");
        }
        for text in ["", "yesterday", "12:00", "2003-13-01"] {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }
}
