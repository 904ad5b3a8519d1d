//! A start time: an absolute time, or the next occurrence of a time of day, in UTC.

use jiff::civil::Time;
use jiff::{Span, Timestamp, tz::TimeZone};

/// A start time as typed, not yet resolved against the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    Moment(Timestamp),
    TimeOfDay(Time),
}

/// Parses an RFC 3339 time, or HH:MM with optional seconds.
pub fn parse_start_at(text: &str) -> Result<StartAt, String> {
    const EXPECTED: &str = "expected HH:MM, HH:MM:SS, or a time such as 2026-11-21T21:56:00Z (UTC)";
    if let Ok(moment) = text.parse() {
        return Ok(StartAt::Moment(moment));
    }
    let colons = text.bytes().filter(|b| *b == b':').count();
    let shape = text.bytes().all(|b| b.is_ascii_digit() || b == b':') && (1..=2).contains(&colons);
    match text.parse() {
        Ok(time) if shape => Ok(StartAt::TimeOfDay(time)),
        _ => Err(EXPECTED.to_owned()),
    }
}

impl StartAt {
    /// Returns the time after `now`; a time of day that has passed is tomorrow's.
    pub fn after(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            StartAt::Moment(moment) => Some(moment),
            StartAt::TimeOfDay(time) => {
                let today = now.to_zoned(TimeZone::UTC).date();
                let moment = |date: jiff::civil::Date| {
                    let zoned = date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?;
                    Some(zoned.timestamp())
                };
                let first = moment(today)?;
                if first > now {
                    return Some(first);
                }
                moment(today.checked_add(Span::new().days(1)).ok()?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let now: Timestamp = "2026-11-21T21:56:00Z".parse().unwrap();
        for (text, moment) in [
            ("22:00", "2026-11-21T22:00:00Z"),
            ("21:56:01", "2026-11-21T21:56:01Z"),
            ("21:56", "2026-11-22T21:56:00Z"),
            ("2026-11-21T23:00:00+01:00", "2026-11-21T22:00:00Z"),
        ] {
            let at = parse_start_at(text).unwrap().after(now).unwrap();
            assert_eq!(at, moment.parse().unwrap(), "{text}");
        }
        for text in ["", "25:00", "noon", "12", "2026-11-21"] {
            assert!(parse_start_at(text).is_err(), "{text}");
        }
    }
}
