//! Progress of a copy on stderr, on a terminal: bytes, rate and remaining time in one line.

use crate::cli::args::CopyArgs;
use longhaul_copy::CopyProgress;
use longhaul_model::units::{Bytes, Rate, format_duration};
use longhaul_report::number_format::format_rate;
use longhaul_report::style::{FAINT, paint};
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::Duration;

const UPDATE_INTERVAL: Duration = Duration::from_millis(500);
/// The number of updates that the rate is averaged over; half a minute would hide changes.
const RATE_SAMPLES: usize = 10;

pub struct CopyProgressLine {
    enabled: bool,
    /// Times and bytes of the last updates.
    recent: VecDeque<(Duration, u64)>,
}

impl CopyProgressLine {
    pub fn new(args: &CopyArgs) -> CopyProgressLine {
        let quiet = args.output.quiet || args.output.form.json;
        CopyProgressLine {
            enabled: !quiet && std::io::stderr().is_terminal(),
            recent: VecDeque::new(),
        }
    }

    pub fn show(&mut self, now: &CopyProgress) {
        let due = self.recent.back().is_none_or(|(last, _)| now.elapsed >= *last + UPDATE_INTERVAL);
        if !self.enabled || !due {
            return;
        }
        self.recent.push_back((now.elapsed, now.bytes));
        if self.recent.len() > RATE_SAMPLES {
            self.recent.pop_front();
        }
        let speed = self
            .recent
            .front()
            .and_then(|(at, bytes)| Rate::over(now.bytes - bytes, now.elapsed.saturating_sub(*at)));
        let line = format_copy_progress(now, speed);
        // If stderr is closed, the line is lost and the copy continues.
        let _ = write!(anstream::stderr(), "\r{}", paint(FAINT, format!("{line:<78}")));
    }

    /// Clears the line for the text that follows.
    pub fn clear(&self) {
        if !self.recent.is_empty() {
            let _ = write!(anstream::stderr(), "\r{:<78}\r", "");
        }
    }
}

fn format_copy_progress(now: &CopyProgress, speed: Option<Rate>) -> String {
    let done = now.bytes + now.skipped_bytes;
    let mut line = Bytes(done).to_string();
    if let Some(total) = now.total_bytes.filter(|total| *total > 0) {
        let percent = done.min(total) * 100 / total;
        let of = format!(" of {} ({percent} %)", Bytes(total));
        line.push_str(&of);
    }
    let Some(speed) = speed.filter(|speed| speed.as_bps() > 0) else {
        return line;
    };
    line.push_str(", ");
    line.push_str(&format_rate(speed.as_bps()));
    let left = now.total_bytes.and_then(|total| total.checked_sub(done));
    if let Some(time) = left.and_then(|left| speed.time_for(left)) {
        let seconds = Duration::from_secs(time.as_secs().max(1));
        let left = format!(", {} left", format_duration(seconds));
        line.push_str(&left);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_terminal_and_tells_what_is_known() {
        let mut now = CopyProgress {
            elapsed: Duration::from_secs(4),
            bytes: 4_000_000_000,
            skipped_bytes: 0,
            total_bytes: Some(10_000_000_000),
        };
        let text = format_copy_progress(&now, Some(Rate::bits_per_second(8_000_000_000)));
        assert!(text.contains("40 %") && text.contains("6 s left"), "{text}");
        assert!(text.len() < 78, "{text}");
        now.total_bytes = None;
        let text = format_copy_progress(&now, None);
        assert!(!text.contains('%') && !text.contains("left"), "{text}");
    }
}
