//! Progress lines on stderr, one per second, which show a ramp of many round trips.

use longhaul_model::units::{Rate, format_duration};
use longhaul_report::number_format::{ABSENT, or_absent};
use longhaul_report::style::{FAINT, paint};
use std::io::Write;
use std::time::Duration;

/// The interval between lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time without a line: after it a line is printed even without news from the peer.
const MAX_LINE_INTERVAL: Duration = Duration::from_millis(2500);

/// The progress of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionProgress {
    /// Payload that the receiver has read, and the time of its report.
    pub received_bytes: u64,
    pub received_at: Duration,
    pub retransmits: Option<u64>,
    pub rtt: Option<Duration>,
}

/// The progress of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunProgress {
    /// Time since the payload started.
    pub elapsed: Duration,
    /// One entry per direction that carries payload, with its name.
    pub flows: Vec<(&'static str, DirectionProgress)>,
}

/// Prints progress lines if enabled.
#[derive(Debug)]
pub struct ProgressPrinter {
    enabled: bool,
    last: Option<RunProgress>,
}

impl ProgressPrinter {
    pub fn new(enabled: bool) -> Self {
        ProgressPrinter { enabled, last: None }
    }

    /// Prints a line for each direction if the last lines are old enough.
    pub fn show(&mut self, now: RunProgress) {
        if !self.enabled || !self.is_due(&now) {
            return;
        }
        let mut text = String::new();
        if self.last.is_none() {
            text += &paint(FAINT, format_heading());
            text.push('\n');
        }
        let last = self.last.take().unwrap_or_default();
        for (place, (name, flow)) in now.flows.iter().enumerate() {
            let before = last.flows.get(place).map(|(_, flow)| *flow);
            let name = if now.flows.len() > 1 { name } else { "" };
            text += &format_progress_line(now.elapsed, before.unwrap_or_default(), *flow, name);
            text.push('\n');
        }
        // A closed stderr must not stop the run.
        let _ = anstream::stderr().write_all(text.as_bytes());
        self.last = Some(now);
    }

    fn is_due(&self, now: &RunProgress) -> bool {
        let last = self.last.clone().unwrap_or_default();
        let since = now.elapsed.saturating_sub(last.elapsed);
        let news = now.flows.iter().enumerate().all(|(place, (_, flow))| {
            let before = last.flows.get(place).map(|(_, flow)| flow.received_at);
            flow.received_at > before.unwrap_or_default()
        });
        !now.flows.is_empty() && ((since >= LINE_INTERVAL && news) || since >= MAX_LINE_INTERVAL)
    }

    /// Prints a blank line between the progress lines and the report.
    pub fn finish(&self) {
        if self.last.is_some() {
            let _ = writeln!(anstream::stderr());
        }
    }
}

fn format_heading() -> String {
    format!("{:>8}{:>16}{:>12}{:>10}", "time", "goodput", "RTT", "retr")
}

/// Formats the progress of one direction between two moments.
fn format_progress_line(
    elapsed: Duration,
    last: DirectionProgress,
    now: DirectionProgress,
    name: &str,
) -> String {
    let over = now.received_at.saturating_sub(last.received_at);
    let rate = Rate::over(now.received_bytes.saturating_sub(last.received_bytes), over);
    let rate = or_absent(rate, |rate| rate.to_string());
    let resent = match (last.retransmits.unwrap_or(0), now.retransmits) {
        (before, Some(after)) => after.saturating_sub(before).to_string(),
        _ => ABSENT.to_owned(),
    };
    let time = format!("{:.1} s", elapsed.as_secs_f64());
    let rtt = or_absent(now.rtt, format_duration);
    let line = format!("{time:>8}{rate:>16}{rtt:>12}{resent:>10}  {name}");
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, received_bytes: u64, retransmits: Option<u64>) -> DirectionProgress {
        DirectionProgress {
            received_bytes,
            received_at: Duration::from_secs(seconds),
            retransmits,
            rtt: Some(Duration::from_millis(172)),
        }
    }

    #[test]
    fn a_line_tells_what_happened_since_the_one_before() {
        let now = at(2, 2_250_000, Some(5));
        let text = format_progress_line(Duration::from_secs(2), at(1, 1_000_000, Some(2)), now, "");
        assert_eq!(text, "   2.0 s       10 Mbit/s      172 ms         3");
        let unknown = DirectionProgress { rtt: None, ..at(1, 0, None) };
        let text = format_progress_line(
            Duration::from_secs(1),
            DirectionProgress::default(),
            unknown,
            "reverse",
        );
        assert_eq!(text, "   1.0 s         0 bit/s           -         -  reverse");
    }

    #[test]
    fn lines_wait_for_news_but_not_for_ever() {
        let moment = |millis, flow| RunProgress {
            elapsed: Duration::from_millis(millis),
            flows: vec![("forward", flow)],
        };
        let mut live = ProgressPrinter::new(true);
        assert!(!live.is_due(&moment(900, at(1, 1, None))), "too early");
        assert!(live.is_due(&moment(1000, at(1, 1, None))));
        live.last = Some(moment(1000, at(1, 1, None)));
        assert!(!live.is_due(&moment(2000, at(1, 1, None))), "no news");
        assert!(live.is_due(&moment(3500, at(1, 1, None))), "silence is news");
    }
}
