//! The progress of a copy as a line of text, with the time left and what was forecast on the way.

use crate::cli::report_archiving::saturating_micros;
use longhaul_copy::CopyProgress;
use longhaul_history::finish_forecast::FinishForecast;
use longhaul_history::finish_forecast::progress_forecaster::{ProgressForecaster, RateChange};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::copy::CopyForecast;
use longhaul_model::units::{Bytes, Rate};
use longhaul_report::number_format::{format_rate, join_parts};
use longhaul_report::scan_text::setting_format::format_span;
use std::time::Duration;

/// The state of a running copy, with the forecasts made of it.
#[derive(Debug, Default)]
pub struct CopyTracker {
    forecaster: ProgressForecaster,
    now: CopyProgress,
    /// The forecast at the last whole second, and the time of the copy at which it was made.
    latest: Option<(FinishForecast, Duration)>,
    change: Option<RateChange>,
    forecasts: Vec<CopyForecast>,
}

impl CopyTracker {
    /// Takes in the progress.
    pub fn track_progress(&mut self, now: &CopyProgress) {
        self.now = now.clone();
        if !self.forecaster.add_progress(now.elapsed, now.bytes) {
            return;
        }
        self.change = self.forecaster.latest_change();
        let left = left_bytes(now).filter(|left| *left > 0);
        if let Some(forecast) = left.and_then(|left| self.forecaster.forecast_rest(left)) {
            self.file_forecast(&forecast);
            self.latest = Some((forecast, now.elapsed));
        }
    }

    /// Keeps the forecast for the report if the time of the copy has doubled since the last one kept.
    fn file_forecast(&mut self, forecast: &FinishForecast) {
        let elapsed_us = saturating_micros(self.now.elapsed);
        if self.forecasts.last().is_some_and(|last| elapsed_us < 2 * last.elapsed_us) {
            return;
        }
        let finish_us = |left: Duration| elapsed_us.saturating_add(saturating_micros(left));
        let [low, high] = forecast.interval();
        self.forecasts.push(CopyForecast {
            elapsed_us,
            finish_us: finish_us(forecast.median()),
            finish_low_us: finish_us(low),
            finish_high_us: finish_us(high),
        });
    }

    /// Formats the progress: the rate is the mean since the start, or since the latest change.
    pub fn format_progress(&self) -> String {
        let now = &self.now;
        let done = now.bytes + now.skipped_bytes;
        let total = now.total_bytes.filter(|total| *total > 0);
        let percent = |total: u64| done.min(total) * 100 / total;
        let share = total.map_or_else(String::new, |total| match self.change {
            // The earlier rate needs the room.
            Some(_) => format!(" ({} %)", percent(total)),
            None => format!(" of {} ({} %)", Bytes(total), percent(total)),
        });
        let mean = Rate::over(now.bytes, now.elapsed).filter(|speed| speed.as_bps() > 0);
        let speed = match self.change {
            Some(RateChange { before_bps, after_bps, .. }) => {
                Some(format!("{} (was {})", format_rate(after_bps), format_rate(before_bps)))
            }
            None => mean.map(|speed| format_rate(speed.as_bps())),
        };
        let left = self.latest.as_ref().filter(|_| left_bytes(now).is_some_and(|left| left > 0));
        let left = left.map(|(forecast, at)| {
            let since = now.elapsed.saturating_sub(*at);
            let [low, high] = forecast.interval().map(|end| end.saturating_sub(since));
            format_left(forecast.median().saturating_sub(since), [low, high])
        });
        join_parts(", ", [Some(format!("{}{share}", Bytes(done))), speed, left])
    }

    /// Returns the kept forecasts, and a caveat if the rate changed during the copy.
    pub fn finish(self) -> (Vec<CopyForecast>, Option<ReportCaveat>) {
        let caveat = self.change.map(|RateChange { at, before_bps, after_bps }| {
            let text = format!(
                "the rate changed {} after the first block, from {} to {}; the goodput is the mean of both",
                format_span(saturating_micros(at)),
                format_rate(before_bps),
                format_rate(after_bps),
            );
            ReportCaveat::new("rate_changed", text)
        });
        (self.forecasts, caveat)
    }
}

pub fn left_bytes(now: &CopyProgress) -> Option<u64> {
    now.total_bytes?.checked_sub(now.bytes + now.skipped_bytes)
}

/// Formats a time left with its interval, in one unit: `6 min left (5 to 9 min)`.
fn format_left(median: Duration, [low, high]: [Duration; 2]) -> String {
    let (unit_s, unit) = match median.as_secs() {
        0..120 => (1.0, "s"),
        120..7200 => (60.0, "min"),
        _ => (3600.0, "h"),
    };
    let count = |time: Duration| (time.as_secs_f64() / unit_s).round().max(1.0);
    format!("{} {unit} left ({} to {} {unit})", count(median), count(low), count(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// Tracks a copy of 10 GB whose seconds move so many bytes each.
    fn track_seconds(counts: impl IntoIterator<Item = u64>) -> CopyTracker {
        let mut tracker = CopyTracker::default();
        let mut now = CopyProgress { total_bytes: Some(10_000 * MB), ..CopyProgress::default() };
        for count in counts {
            now.elapsed += Duration::from_secs(1);
            now.bytes += count;
            tracker.track_progress(&now);
        }
        tracker
    }

    #[test]
    fn the_time_left_has_an_interval_from_the_second_second_on() {
        let text = track_seconds([100 * MB, 100 * MB]).format_progress();
        assert!(text.contains("Mbit/s") && text.contains(" s left ("), "{text}");
        assert!(text.len() < 79, "{text}");
    }

    #[test]
    fn a_change_of_the_rate_is_said_with_both_rates() {
        let scatter = |number: u64, level: u64| level * MB + number * 7 % 11 * MB / 10;
        let slower = (0..60).map(|number| scatter(number, if number < 30 { 100 } else { 40 }));
        let tracker = track_seconds(slower);
        let text = tracker.format_progress();
        assert!(text.contains("Mbit/s (was 80") && text.len() < 79, "{text}");
        let (forecasts, caveat) = tracker.finish();
        let text = caveat.expect("a caveat").text;
        assert!(text.contains("changed 30 s after"), "{text}");
        let kept: Vec<u64> = forecasts.iter().map(|it| it.elapsed_us / 1_000_000).collect();
        assert_eq!(kept, [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn a_stream_has_neither_a_share_nor_a_time_left() {
        let mut tracker = CopyTracker::default();
        let now = CopyProgress {
            elapsed: Duration::from_secs(3),
            bytes: 30 * MB,
            ..CopyProgress::default()
        };
        tracker.track_progress(&now);
        let text = tracker.format_progress();
        assert!(!text.contains('%') && !text.contains("left"), "{text}");
    }
}
