//! Progress on stderr: a status line that is overwritten, lines that stay, and those of a test.

use super::args::OutputArgs;
use super::command_output::{fit_locale, print_note};
use longhaul_analysis::limit::live_limiter::name_live_limiter;
use longhaul_model::units::{Rate, format_duration};
use longhaul_probe::throughput::{PayloadProgress, ThroughputProgress};
use longhaul_report::number_format::{ABSENT, or_absent};
use longhaul_report::style::{FAINT, paint};
use longhaul_report::text_page::{WIDTH, wrap_text};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The time between two updates of a status line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// Prints text before the progress, unless `--quiet` is given.
pub fn print_statement(output: &OutputArgs, text: &str) {
    if !output.quiet {
        print_note(&wrap_text(text, WIDTH).join("\n"));
    }
}

/// A line that shows the current state, on a terminal only. If stderr is closed, the text is lost
/// and the measurement continues.
pub struct StatusLine {
    enabled: bool,
    drawn: Option<Instant>,
}

impl StatusLine {
    pub fn new(enabled: bool) -> StatusLine {
        StatusLine { enabled: enabled && std::io::stderr().is_terminal(), drawn: None }
    }

    /// Returns a line that is also shown if stderr is no terminal.
    fn always() -> StatusLine {
        StatusLine { enabled: true, drawn: None }
    }

    /// Overwrites the line if its last update is old enough.
    pub fn update(&mut self, text: &str) {
        if self.drawn.is_none_or(|at| at.elapsed() >= UPDATE_INTERVAL) {
            self.draw(text);
        }
    }

    /// Overwrites the line. Spaces instead of an escape sequence: dumb terminals have none.
    pub fn draw(&mut self, text: &str) {
        if !self.enabled {
            return;
        }
        self.drawn = Some(Instant::now());
        let line: String = fit_locale(text).chars().take(WIDTH - 1).collect();
        let mut err = anstream::stderr();
        let _ = write!(err, "\r{line:<width$}", width = WIDTH - 1);
        let _ = err.flush();
    }

    /// Replaces the line by text that stays.
    pub fn print(&mut self, text: &str) {
        self.clear();
        if self.enabled {
            print_note(text.trim_end());
        }
    }

    /// Clears the line for the text that follows.
    pub fn clear(&mut self) {
        if self.drawn.is_some() {
            self.draw("");
            let _ = write!(anstream::stderr(), "\r");
            self.drawn = None;
        }
    }
}

/// The lines of a test, one per interval and direction.
pub struct ThroughputLines {
    line: StatusLine,
    /// The time between two lines; `None` for no lines.
    interval: Option<Duration>,
    last: Option<ThroughputProgress>,
}

impl ThroughputLines {
    /// Creates the lines of a run. If the user gave the interval, they are shown without a terminal
    /// too.
    pub fn new(interval: Option<Duration>, is_given: bool) -> Self {
        let line = if is_given { StatusLine::always() } else { StatusLine::new(true) };
        ThroughputLines { line, interval, last: None }
    }

    /// Prints a line for each direction if the last lines are old enough.
    pub fn show(&mut self, now: &ThroughputProgress) {
        let Some(interval) = self.interval else {
            return;
        };
        let last = self.last.as_ref();
        let since = now.elapsed.saturating_sub(last.map_or(Duration::ZERO, |last| last.elapsed));
        if since < interval || (now.forward.is_none() && now.reverse.is_none()) {
            return;
        }
        if self.last.is_none() {
            let heading =
                format!("{:>8}{:>16}{:>12}{:>10}  limiter", "time", "goodput", "RTT", "retr");
            self.line.print(&paint(FAINT, heading));
        }
        let directions = [
            (true, &now.forward, last.and_then(|last| last.forward.as_ref())),
            (false, &now.reverse, last.and_then(|last| last.reverse.as_ref())),
        ];
        let both = now.forward.is_some() && now.reverse.is_some();
        for (forward, flow, before) in directions {
            if let Some(flow) = flow {
                let name = match forward {
                    _ if !both => "",
                    true => "forward",
                    false => "reverse",
                };
                let line = format_progress_line(now.elapsed, before, flow, forward, name);
                self.line.print(&line);
            }
        }
        self.last = Some(now.clone());
    }

    /// Prints a blank line between the progress lines and the report.
    pub fn finish(&mut self) {
        if self.last.is_some() {
            self.line.print("");
        }
    }
}

/// Formats the progress of one direction between two moments; `sends`: this host is the sender.
fn format_progress_line(
    elapsed: Duration,
    last: Option<&PayloadProgress>,
    now: &PayloadProgress,
    sends: bool,
    name: &str,
) -> String {
    let rate = or_absent(rate_since(last, now), |rate| rate.to_string());
    let before = last.and_then(|last| last.retransmits).unwrap_or(0);
    // Retransmits and RTT under load are known only where this host sends.
    let resent = now.retransmits.filter(|_| sends);
    let resent = or_absent(resent, |after| after.saturating_sub(before).to_string());
    let time = format!("{:.1} s", elapsed.as_secs_f64());
    let rtt = or_absent(now.rtt.filter(|_| sends), format_duration);
    let earlier = last.map(|last| last.own_ends.as_slice()).unwrap_or_default();
    let limiter = name_live_limiter(earlier, &now.own_ends, sends).unwrap_or(ABSENT);
    let line = format!("{time:>8}{rate:>16}{rtt:>12}{resent:>10}  {limiter:<18} {name}");
    line.trim_end().to_owned()
}

/// Returns the goodput since an earlier moment, or since the start.
pub fn rate_since(last: Option<&PayloadProgress>, now: &PayloadProgress) -> Option<Rate> {
    let before = |read: fn(&PayloadProgress) -> Option<u64>| last.and_then(read).unwrap_or(0);
    let bytes = now.received_bytes?.saturating_sub(before(|it| it.received_bytes));
    let at = last.and_then(|last| last.received_at).unwrap_or_default();
    Rate::over(bytes, now.received_at?.saturating_sub(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, received_bytes: u64, retransmits: Option<u64>) -> PayloadProgress {
        PayloadProgress {
            received_bytes: Some(received_bytes),
            received_at: Some(Duration::from_secs(seconds)),
            retransmits,
            rtt: Some(Duration::from_millis(172)),
            ..PayloadProgress::default()
        }
    }

    #[test]
    fn a_line_tells_what_happened_since_the_one_before() {
        let (before, now) = (at(1, 1_000_000, Some(2)), at(2, 2_250_000, Some(5)));
        let text = format_progress_line(Duration::from_secs(2), Some(&before), &now, true, "");
        assert_eq!(text, "   2.0 s       10 Mbit/s      172 ms         3  -");
        // The RTT and the retransmits of a receiver are not those of the payload.
        let text = format_progress_line(Duration::from_secs(2), None, &now, false, "reverse");
        assert_eq!(
            text,
            "   2.0 s        9 Mbit/s           -         -  -                  reverse"
        );
        assert!(text.len() < 80);
    }
}
