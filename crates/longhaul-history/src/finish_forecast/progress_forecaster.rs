//! Forecasts the time left of a running copy from its progress.
//!
//! Rates of equal intervals are split into levels, as a series of tests is; the newest level and the
//! scatter around all of them give the forecast. The first intervals are left out, since the windows
//! grow in them.
//!
//! Source: as the module above. Units: bytes, bit/s, time since the first block.
//! Error: docs/benchmarks.md. Wrong when: the copy ends with a slow part that it never had before,
//! such as many small files.

use super::{FinishForecast, ForecastTuning, RateModel, simulate_finish};
use crate::change_detection::level_shifts::{LevelShifts, find_levels};
use std::time::Duration;

/// The interval of the first rates; it doubles when there are too many.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVALS: usize = 240;
/// The intervals left out at the start, at most and as a share of all.
const RAMP_INTERVALS: usize = 4;
const RAMP_SHARE: usize = 2;
/// The minimum difference of two levels, as a logarithm.
const MIN_DIFFERENCE: f64 = 0.1;
/// The share of the mean rate below which rates count as equal: a logarithm needs a floor.
const FLOOR_RATIO: f64 = 0.02;

/// A change of the rate during a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateChange {
    pub at: Duration,
    pub before_bps: u64,
    pub after_bps: u64,
}

/// A forecaster of the time left, fed with the progress of a transfer.
#[derive(Debug, Clone)]
pub struct ProgressForecaster {
    interval: Duration,
    /// The bytes of each whole interval.
    counts: Vec<u64>,
    /// The last progress point, and the bytes at the end of the last whole interval.
    last: (Duration, u64),
    counted_bytes: u64,
}

impl Default for ProgressForecaster {
    fn default() -> Self {
        ProgressForecaster {
            interval: FIRST_INTERVAL,
            counts: Vec::new(),
            last: (Duration::ZERO, 0),
            counted_bytes: 0,
        }
    }
}

impl ProgressForecaster {
    /// Adds the bytes transferred by a time. Returns true if that completed an interval, so that a
    /// new forecast differs from the last.
    pub fn add_progress(&mut self, elapsed: Duration, bytes: u64) -> bool {
        let before = self.counts.len();
        let (last_at, last_bytes) = self.last;
        let step = elapsed.saturating_sub(last_at);
        if step.is_zero() || bytes < last_bytes {
            return false;
        }
        // A point may complete several intervals: its bytes are spread evenly over its time.
        while let Some(into) = self.next_end().checked_sub(last_at).filter(|into| *into <= step) {
            let part = into.as_secs_f64() / step.as_secs_f64();
            let by_then = last_bytes + ((bytes - last_bytes) as f64 * part) as u64;
            self.counts.push(by_then.saturating_sub(self.counted_bytes));
            self.counted_bytes = by_then;
            if self.counts.len() >= MAX_INTERVALS {
                self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
                self.interval *= 2;
            }
        }
        self.last = (elapsed, bytes);
        self.counts.len() != before
    }

    /// Forecasts the time left for so many bytes; `None` before the first whole interval.
    pub fn forecast_rest(&self, left_bytes: u64) -> Option<FinishForecast> {
        let rates = self.rates_bps();
        let model = RateModel::fit(
            &rates,
            self.interval.as_secs_f64(),
            &find_rate_levels(&rates),
            ForecastTuning::SPAN_OF_PROGRESS_S,
        )?;
        Some(simulate_finish(&model, left_bytes, None))
    }

    /// Returns the latest change of the rate.
    pub fn latest_change(&self) -> Option<RateChange> {
        let rates = self.rates_bps();
        let shifts = find_rate_levels(&rates);
        let at = shifts.shifts.last()?.at;
        let ranges = shifts.ranges(rates.len());
        let levels = ranges.iter().rev().map(|range| super::mean(&rates[range.clone()]));
        let levels: Vec<u64> = levels.map(|bps| bps.unwrap_or(0.0) as u64).collect();
        let skipped = self.counts.len() - rates.len();
        let at = self.interval * u32::try_from(at + skipped).unwrap_or(u32::MAX);
        Some(RateChange { at, before_bps: *levels.get(1)?, after_bps: levels[0] })
    }

    fn next_end(&self) -> Duration {
        self.interval * u32::try_from(self.counts.len() + 1).unwrap_or(u32::MAX)
    }

    /// Returns the rates of the whole intervals after the ramp. The first one is the mean until now:
    /// the windows grow, so that its newest part counts most.
    fn rates_bps(&self) -> Vec<f64> {
        if let [_] = self.counts[..] {
            let (elapsed, bytes) = self.last;
            return vec![bytes as f64 * 8.0 / elapsed.as_secs_f64()];
        }
        let ramp = RAMP_INTERVALS.min(self.counts.len() / RAMP_SHARE);
        let seconds = self.interval.as_secs_f64();
        self.counts[ramp..].iter().map(|bytes| *bytes as f64 * 8.0 / seconds).collect()
    }
}

fn find_rate_levels(rates_bps: &[f64]) -> LevelShifts {
    let floor_bps = FLOOR_RATIO * super::mean(rates_bps).unwrap_or(1.0);
    let scaled: Vec<f64> = rates_bps.iter().map(|bps| bps.max(floor_bps).ln()).collect();
    find_levels(&scaled, MIN_DIFFERENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds progress every 100 ms at rates in bytes per second, each for one second.
    fn feed_seconds(rates: impl IntoIterator<Item = u64>) -> (ProgressForecaster, usize) {
        let mut forecaster = ProgressForecaster::default();
        let (mut bytes, mut elapsed, mut intervals) = (0, Duration::ZERO, 0);
        for rate in rates {
            for _ in 0..10 {
                elapsed += Duration::from_millis(100);
                bytes += rate / 10;
                intervals += usize::from(forecaster.add_progress(elapsed, bytes));
            }
        }
        (forecaster, intervals)
    }

    #[test]
    fn the_first_second_gives_a_wide_interval_and_a_minute_a_narrow_one() {
        let seconds = |count: usize| feed_seconds((0..count as u64).map(|n| 1_000_000 + n * 7 % 5));
        let width = |count: usize| {
            let (forecaster, _) = seconds(count);
            let forecast = forecaster.forecast_rest(20_000_000).unwrap();
            let [low, high] = forecast.interval().map(|end| end.as_secs_f64());
            assert!(low < 20.0 && 20.0 < high, "{low} to {high} s");
            high - low
        };
        let (first, later) = (width(1), width(60));
        assert!(first > 2.0 * later, "{first} s and {later} s");
    }

    #[test]
    fn a_change_of_the_rate_is_followed_and_told() {
        let rate = |second: u64| if second < 40 { 1_000_000 } else { 250_000 };
        let (forecaster, _) =
            feed_seconds((0..60).map(|second| rate(second) + second * 7919 % 9973));
        let change = forecaster.latest_change().unwrap();
        assert_eq!(change.at, Duration::from_secs(40));
        assert!(change.before_bps > 7_900_000 && change.after_bps < 2_200_000, "{change:?}");
        let median = forecaster.forecast_rest(5_000_000).unwrap().median().as_secs_f64();
        assert!((15.0..25.0).contains(&median), "{median} s at the new rate");
    }

    #[test]
    fn a_long_copy_keeps_a_bounded_number_of_intervals() {
        let (forecaster, intervals) = feed_seconds((0..5_000).map(|_| 1_000_000));
        assert!(forecaster.counts.len() < MAX_INTERVALS && forecaster.interval.as_secs() >= 16);
        assert!(intervals > MAX_INTERVALS, "{intervals}");
        let median = forecaster.forecast_rest(100_000_000).unwrap().median().as_secs_f64();
        assert!((median - 100.0).abs() < 2.0, "{median} s");
    }

    #[test]
    fn a_copy_that_has_not_moved_has_no_forecast_and_a_stalled_one_no_panic() {
        assert!(ProgressForecaster::default().forecast_rest(1).is_none());
        let (forecaster, _) = feed_seconds([0, 0, 0]);
        assert!(forecaster.forecast_rest(1).is_none());
        let (forecaster, _) =
            feed_seconds((0..60).map(|second| u64::from(second < 30) * 1_000_000));
        let _ = (forecaster.forecast_rest(u64::MAX), forecaster.latest_change());
    }
}
