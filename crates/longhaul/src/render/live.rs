//! One line a second on stderr while a run goes on, so that a ramp of many round trips is seen.

use super::figures::{ABSENT, or_absent};
use super::style::{FAINT, paint};
use longhaul_model::units::{Rate, format_duration};
use std::io::Write;
use std::time::Duration;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// How far a run has come, all streams of a direction together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// Since payload flows.
    pub elapsed: Duration,
    /// Payload so far.
    pub bytes: u64,
    pub retransmits: Option<u64>,
    pub rtt: Option<Duration>,
}

/// Prints the lines, or nothing.
#[derive(Debug)]
pub struct Live {
    enabled: bool,
    last: Option<Moment>,
}

impl Live {
    pub fn new(enabled: bool) -> Self {
        Live {
            enabled,
            last: None,
        }
    }

    /// Prints a line when the last one is old enough.
    pub fn show(&mut self, now: Moment) {
        if !self.enabled {
            return;
        }
        let last = self.last.unwrap_or_default();
        if now.elapsed < last.elapsed + EVERY {
            return;
        }
        let mut text = String::new();
        if self.last.is_none() {
            text += &paint(FAINT, heading());
            text.push('\n');
        }
        text += &line(last, now);
        text.push('\n');
        // A closed stderr costs the lines, not the run.
        let _ = anstream::stderr().write_all(text.as_bytes());
        self.last = Some(now);
    }

    /// A blank line between the last line and the report.
    pub fn finish(&self) {
        if self.last.is_some() {
            let _ = writeln!(anstream::stderr());
        }
    }
}

fn heading() -> String {
    format!(
        "{:>8}{:>16}{:>12}{:>10}",
        "time", "goodput", "RTT", "resent"
    )
}

/// What happened between two moments.
fn line(last: Moment, now: Moment) -> String {
    let over = now.elapsed.saturating_sub(last.elapsed);
    let rate = Rate::over(now.bytes.saturating_sub(last.bytes), over);
    let rate = or_absent(rate, |rate| rate.to_string());
    let resent = match (last.retransmits.unwrap_or(0), now.retransmits) {
        (before, Some(after)) => after.saturating_sub(before).to_string(),
        _ => ABSENT.to_owned(),
    };
    let time = format!("{:.1} s", now.elapsed.as_secs_f64());
    let rtt = or_absent(now.rtt, format_duration);
    format!("{time:>8}{rate:>16}{rtt:>12}{resent:>10}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_happened_since_the_one_before() {
        let at = |seconds, bytes, retransmits| Moment {
            elapsed: Duration::from_secs(seconds),
            bytes,
            retransmits,
            rtt: Some(Duration::from_millis(172)),
        };
        let text = line(at(1, 1_000_000, Some(2)), at(2, 2_250_000, Some(5)));
        assert_eq!(text, "   2.0 s       10 Mbit/s      172 ms         3");
        let unknown = Moment {
            rtt: None,
            ..at(1, 0, None)
        };
        assert!(line(Moment::default(), unknown).ends_with("0 bit/s           -         -"));
    }
}
