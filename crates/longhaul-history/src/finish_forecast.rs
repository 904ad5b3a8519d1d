//! Forecasts when a transfer will finish, with an interval, from rates measured before.
//!
//! A [`RateModel`] describes the rate to come: the mean of the current level and its error, the
//! scatter around it with its correlation, the daily season, and changes of level as often as they
//! were seen, to levels that were seen. [`simulate_finish`] draws many courses of the rate from it
//! and adds them up until the bytes are transferred. What is known of few values is mixed with what
//! is usual ([`ForecastTuning`]).
//!
//! Source: our own (docs/decisions/0104). Units: bit/s, bytes, seconds from the start of the forecast.
//! Error: 90 % intervals hold the truth in 87 to 93 % of simulated transfers (`cargo xtask bench
//! forecast`).
//! Wrong when: the tests of the series had other settings than the transfer, last so briefly that
//! their own scatter hides that of the path, or the future differs from all that was measured.

pub mod path_forecast;
pub mod progress_forecaster;

use crate::change_detection::daily_season::DailySeason;
use crate::change_detection::level_shifts::LevelShifts;
use crate::change_detection::{DetectionOptions, analyse_series};
use longhaul_analysis::stats::mean_interval::{mean_half_width, student_t_975};
use longhaul_analysis::stats::{quantile, sort_finite};
use longhaul_model::report::v1::SeriesPoint;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::splitmix::SplitMix64;
use std::time::Duration;

/// The parameters of forecasts, set by the bench.
struct ForecastTuning;

impl ForecastTuning {
    /// The number of simulated courses; the ends of the interval are the 50th from each end.
    const DRAWS: usize = 1000;
    /// The ends of the interval, as shares of the courses.
    const INTERVAL: [f64; 2] = [0.05, 0.95];
    /// The scatter of a rate whose scatter is unknown, as a ratio of the rate, and the number of
    /// values that this assumption counts for.
    const USUAL_SCATTER: f64 = 0.2;
    const USUAL_VALUES: f64 = 2.0;
    /// The correlation of neighbours, and the number of values that this assumption counts for.
    const USUAL_CORRELATION: f64 = 0.4;
    const USUAL_PAIRS: f64 = 8.0;
    const MAX_CORRELATION: f64 = 0.98;
    /// Half a change of level is assumed on top of those seen, in this time on top of that seen.
    const SPAN_OF_PROGRESS_S: f64 = 120.0;
    const SPAN_OF_SERIES_S: f64 = 2.0 * 86_400.0;
    /// The maximum number of newest values that may belong to a level not yet detected.
    const MAX_UNDETECTED: usize = 8;
    /// A new level is a seen one times a factor with this standard deviation of its logarithm.
    const NEW_LEVEL_SIGMA: f64 = 0.35;
    /// The number of steps in which a course is simulated, as far as its values are that close; the
    /// maximum step with a season, and the number of steps after which a course keeps its rate.
    const STEPS: f64 = 100.0;
    const MAX_SEASON_STEP_S: f64 = 3600.0;
    const MAX_STEPS: usize = 4000;
    /// A longer time is as good as never.
    const MAX_FINISH_S: f64 = 1e12;
}

/// A simulated distribution of the time until a transfer is finished.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishForecast {
    /// The finish of each course in seconds, ascending.
    finishes_s: Vec<f64>,
}

impl FinishForecast {
    /// Returns the median.
    pub fn median(&self) -> Duration {
        self.finish_at(0.5)
    }

    /// Returns the 90 % interval.
    pub fn interval(&self) -> [Duration; 2] {
        ForecastTuning::INTERVAL.map(|share| self.finish_at(share))
    }

    /// Returns the chance that the transfer is finished within this time, from 0 to 1.
    pub fn chance_within(&self, time: Duration) -> f64 {
        let within = self.finishes_s.partition_point(|finish| *finish <= time.as_secs_f64());
        within as f64 / self.finishes_s.len() as f64
    }

    fn finish_at(&self, share: f64) -> Duration {
        let seconds = quantile(&self.finishes_s, share).unwrap_or(0.0);
        Duration::from_secs_f64(seconds.min(ForecastTuning::MAX_FINISH_S))
    }
}

/// A model of the rate to come.
#[derive(Debug, Clone, PartialEq)]
pub struct RateModel {
    /// The mean rate of the current level, without the season.
    pub level_bps: f64,
    /// The level that the transfer may start with: the current one, or one not yet detected.
    start_levels: Vec<StartLevel>,
    /// The degrees of freedom of the scatter.
    freedom: f64,
    /// The scatter of one value as a ratio of the level, and the correlation of neighbours.
    scatter: f64,
    correlation: f64,
    last_bps: f64,
    /// The time from one value to the next.
    spacing_s: f64,
    /// The number of changes seen, and the time in which they were, with that assumed.
    changes: usize,
    span_s: f64,
    /// The mean rate of each level with the share of values up to its end.
    seen_levels: Vec<(f64, f64)>,
    /// The season of the logarithm of the rate, and the time at which the forecast starts.
    season: Option<(DailySeason, i64)>,
}

impl RateModel {
    /// Fits a model to rates (bit/s, without season) at equal distances; `None` without a value.
    fn fit(
        rates_bps: &[f64],
        spacing_s: f64,
        shifts: &LevelShifts,
        usual_span_s: f64,
    ) -> Option<RateModel> {
        let count = rates_bps.len();
        let ranges = shifts.ranges(count);
        let current = &rates_bps[ranges.last()?.clone()];
        let (mut seen_levels, mut residuals) = (Vec::new(), Vec::new());
        for range in &ranges {
            let level_bps = mean(&rates_bps[range.clone()])?;
            seen_levels.push((level_bps, range.end as f64 / count as f64));
            residuals.extend(rates_bps[range.clone()].iter().map(|bps| bps / level_bps - 1.0));
        }
        let (level_bps, _) = *seen_levels.last()?;
        let squares: f64 = residuals.iter().map(|r| r * r).sum();
        let freedom = ForecastTuning::USUAL_VALUES + (count - ranges.len()) as f64;
        let assumed = ForecastTuning::USUAL_VALUES * ForecastTuning::USUAL_SCATTER.powi(2);
        let scatter = ((assumed + squares) / freedom).sqrt();
        let correlation = estimate_correlation(&residuals, squares);
        let length = current.len() as f64;
        let by_scatter = scatter * (correlated_values(correlation) / length).sqrt();
        let by_batches = mean_half_width(current)
            .map_or(0.0, |half| half / student_t_975(length - 1.0) / level_bps);
        let level_error = by_scatter.max(by_batches);
        // The slower variation that the batches show is in the future, too.
        let correlated = (level_error / scatter).powi(2) * length;
        let changes = shifts.shifts.len();
        let span_s = count as f64 * spacing_s + usual_span_s;
        let change_ratio = (changes as f64 + 0.5) / span_s * spacing_s;
        let undetected = list_undetected_levels(current, scatter, correlation, change_ratio);
        let start = StartLevel { level_bps, error: level_error, weight: 1.0 };
        Some(RateModel {
            level_bps,
            start_levels: std::iter::once(start).chain(undetected).collect(),
            freedom: freedom / correlated_values(correlation),
            scatter,
            correlation: ((correlated - 1.0) / (correlated + 1.0))
                .clamp(correlation, ForecastTuning::MAX_CORRELATION),
            last_bps: *current.last()?,
            spacing_s,
            changes,
            span_s,
            seen_levels,
            season: None,
        })
    }

    /// Draws the level at the start, by weight.
    fn draw_start(&self, rng: &mut SplitMix64) -> StartLevel {
        let all: f64 = self.start_levels.iter().map(|start| start.weight).sum();
        let mut place = rng.unit() * all;
        let drawn = self.start_levels.iter().find(|start| {
            place -= start.weight;
            place < 0.0
        });
        *drawn.unwrap_or(&self.start_levels[0])
    }

    /// Draws a rate of the path after a change of level.
    fn draw_level(&self, rng: &mut SplitMix64) -> f64 {
        let share = rng.unit();
        let seen = self.seen_levels.iter().find(|(_, end)| share < *end);
        let level_bps = seen.map_or(self.level_bps, |(level_bps, _)| *level_bps);
        level_bps * (ForecastTuning::NEW_LEVEL_SIGMA * rng.normal()).exp()
    }

    /// Returns true if the rate depends on the hour.
    pub fn has_season(&self) -> bool {
        self.season.is_some()
    }

    /// Returns the model of a transfer that starts at another time.
    #[must_use]
    pub fn starting_at(mut self, start_us: i64) -> RateModel {
        self.season = self.season.map(|(season, _)| (season, start_us));
        self
    }

    fn season_factor(&self, at_s: f64) -> f64 {
        self.season.as_ref().map_or(1.0, |(season, start_us)| {
            season.value_at(start_us.saturating_add((at_s * 1e6) as i64)).exp()
        })
    }
}

/// A level with which a transfer may start.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StartLevel {
    level_bps: f64,
    /// The standard error as a ratio.
    error: f64,
    /// The weight beside that of the current level, which is 1.
    weight: f64,
}

/// Returns the levels of the newest values, if those began a level that is too short to be detected:
/// weighted by the odds of a change and by the Bayes factor of the difference.
fn list_undetected_levels(
    current: &[f64],
    scatter: f64,
    correlation: f64,
    change_ratio: f64,
) -> Vec<StartLevel> {
    let longest = ForecastTuning::MAX_UNDETECTED.min(current.len() / 2);
    let lengths = (1..=longest).rev();
    let levels = lengths.filter_map(|length| {
        let (before, newest) = current.split_at(current.len() - length);
        let (usual_bps, level_bps) = (mean(before)?, mean(newest)?);
        let of_mean =
            |count: usize| scatter.powi(2) * correlated_values(correlation) / count as f64;
        let noise = (of_mean(newest.len()) + of_mean(before.len())).min(2.0 * scatter.powi(2));
        let with_change = noise + ForecastTuning::NEW_LEVEL_SIGMA.powi(2);
        let difference = (level_bps / usual_bps).ln();
        let factor = (noise / with_change).sqrt()
            * (difference.powi(2) / 2.0 * (1.0 / noise - 1.0 / with_change)).min(50.0).exp();
        let error = of_mean(newest.len()).min(scatter.powi(2)).sqrt();
        Some(StartLevel { level_bps, error, weight: change_ratio * factor })
    });
    levels.collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean > 0.0 && mean.is_finite()).then_some(mean)
}

/// Returns the number of correlated values that tell as much as one independent value.
fn correlated_values(correlation: f64) -> f64 {
    (1.0 + correlation) / (1.0 - correlation)
}

/// Returns the correlation of neighbouring residuals, drawn towards the usual one if they are few.
fn estimate_correlation(residuals: &[f64], squares: f64) -> f64 {
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let count = residuals.len() as f64;
    // The mean of a level takes part of the correlation away (Marriott and Pope 1954).
    let seen = if squares > 0.0 { products / squares + 2.0 / count } else { 0.0 };
    let usual = ForecastTuning::USUAL_PAIRS * ForecastTuning::USUAL_CORRELATION;
    let mixed = (count * seen + usual) / (count + ForecastTuning::USUAL_PAIRS);
    mixed.clamp(0.0, ForecastTuning::MAX_CORRELATION)
}

/// Forecasts the finish of a transfer that starts at `start_us`, from the goodput of earlier tests.
/// `limit_bps` is a rate that the transfer cannot exceed, such as that of a disk.
///
/// Returns the forecast and the model behind it; `None` without a point.
pub fn forecast_from_series(
    points: &[SeriesPoint],
    bytes: u64,
    start_us: i64,
    limit_bps: Option<u64>,
) -> Option<(FinishForecast, RateModel)> {
    let series = analyse_series(points, PathQuantity::Goodput, &DetectionOptions::default());
    let rates_bps: Vec<f64> = series.scaled.iter().map(|scaled| scaled.exp()).collect();
    let times = series.samples.iter().map(|sample| sample.first_us);
    let (first_us, last_us) = (times.clone().min()?, times.max()?);
    let gaps = (rates_bps.len() - 1).max(1) as f64;
    let spacing_s = (last_us.abs_diff(first_us) as f64 / 1e6 / gaps).max(1.0);
    let usual_span_s = ForecastTuning::SPAN_OF_SERIES_S;
    let mut model = RateModel::fit(&rates_bps, spacing_s, &series.levels, usual_span_s)?;
    model.season = series.season.map(|season| (season, start_us));
    Some((simulate_finish(&model, bytes, limit_bps), model))
}

/// Simulates the transfer of so many bytes. The same arguments always give the same forecast.
pub fn simulate_finish(model: &RateModel, bytes: u64, limit_bps: Option<u64>) -> FinishForecast {
    let mut rng = SplitMix64::new(bytes);
    let limit_bps = limit_bps.map_or(f64::INFINITY, |bps| bps as f64);
    let mut draw = || draw_finish(model, bytes as f64 * 8.0, limit_bps, &mut rng);
    let finishes = (0..ForecastTuning::DRAWS).map(|_| draw());
    FinishForecast { finishes_s: sort_finite(finishes.collect::<Vec<f64>>()) }
}

/// Draws one course of the rate; returns the time in seconds in which it transfers the bits.
fn draw_finish(model: &RateModel, mut bits: f64, limit_bps: f64, rng: &mut SplitMix64) -> f64 {
    let expected_s = bits / model.level_bps.min(limit_bps);
    let mut step_s = (expected_s / ForecastTuning::STEPS).max(model.spacing_s);
    if model.season.is_some() {
        step_s = step_s.min(ForecastTuning::MAX_SEASON_STEP_S.max(model.spacing_s));
    }
    let noise = StepNoise::new(model, step_s);
    let change_ratio = 1.0 - (-step_s * draw_change_rate(model, rng)).exp();
    let start = model.draw_start(rng);
    let mut level_bps = start.level_bps * (start.error * draw_student(model, rng)).exp();
    let mut deviation = (model.last_bps / start.level_bps - 1.0) / model.scatter;
    let mut at_s = 0.0;
    for step in 0.. {
        if rng.unit() < change_ratio {
            level_bps = model.draw_level(rng);
        }
        deviation = noise.next_deviation(deviation, rng);
        let rate_bps = level_bps * noise.factor(deviation) * model.season_factor(at_s);
        // A course that hardly moves still ends.
        let rate_bps = rate_bps.min(limit_bps).max(model.level_bps * 1e-3);
        if bits <= rate_bps * step_s || step == ForecastTuning::MAX_STEPS {
            return at_s + bits / rate_bps;
        }
        bits -= rate_bps * step_s;
        at_s += step_s;
    }
    at_s
}

/// The noise of the mean rate of one step.
struct StepNoise {
    /// The correlation of two steps.
    correlation: f64,
    /// The standard deviation of the logarithm.
    sigma: f64,
}

impl StepNoise {
    fn new(model: &RateModel, step_s: f64) -> StepNoise {
        let values = step_s / model.spacing_s;
        let share = (correlated_values(model.correlation) / values).min(1.0);
        StepNoise {
            correlation: model.correlation.powf(values),
            sigma: (model.scatter.powi(2) * share).ln_1p().sqrt(),
        }
    }

    fn next_deviation(&self, last: f64, rng: &mut SplitMix64) -> f64 {
        self.correlation * last + (1.0 - self.correlation.powi(2)).sqrt() * rng.normal()
    }

    /// Returns the factor of a deviation; its mean is 1.
    fn factor(&self, deviation: f64) -> f64 {
        (self.sigma * deviation - self.sigma.powi(2) / 2.0).exp()
    }
}

/// Draws the rate of changes per second: the gamma distribution of Jeffreys' prior.
fn draw_change_rate(model: &RateModel, rng: &mut SplitMix64) -> f64 {
    draw_chi_square(2 * model.changes + 1, rng) / 2.0 / model.span_s
}

/// Draws from Student's t distribution with the freedom of the level.
fn draw_student(model: &RateModel, rng: &mut SplitMix64) -> f64 {
    let freedom = (model.freedom.round() as usize).clamp(2, 30);
    rng.normal() / (draw_chi_square(freedom, rng) / freedom as f64).sqrt()
}

fn draw_chi_square(freedom: usize, rng: &mut SplitMix64) -> f64 {
    (0..freedom).map(|_| rng.normal().powi(2)).sum::<f64>().max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600_000_000;
    const MONDAY_US: i64 = 1_793_577_600_000_000;

    /// Returns four weeks of hourly tests of a rate given by the hour.
    fn test_hourly(rate_bps: impl Fn(i64) -> f64) -> Vec<SeriesPoint> {
        let mut rng = SplitMix64::new(7);
        let mut noise = || 1.0 + 0.05 * rng.normal();
        let point = |hour: i64, noise: f64| SeriesPoint {
            at_us: MONDAY_US + hour * HOUR_US,
            value: rate_bps(hour) * noise,
        };
        (0..24 * 28).map(|hour| point(hour, noise())).collect()
    }

    fn forecast_hours(points: &[SeriesPoint], bytes: u64, start_hour: i64) -> [f64; 3] {
        let start_us = MONDAY_US + start_hour * HOUR_US;
        let (forecast, _) = forecast_from_series(points, bytes, start_us, None).unwrap();
        let [low, high] = forecast.interval();
        [low, forecast.median(), high].map(|time| time.as_secs_f64() / 3600.0)
    }

    #[test]
    fn a_level_rate_gives_bytes_over_rate_within_a_narrow_interval() {
        let points = test_hourly(|_| 1e9);
        // Ten hours at 1 Gbit/s.
        let [low, median, high] = forecast_hours(&points, 4_500_000_000_000, 24 * 28);
        assert!((median - 10.0).abs() < 0.3, "{median} h");
        assert!(low < 10.0 && 10.0 < high && high - low < 3.0, "{low} to {high} h");
    }

    #[test]
    fn after_a_step_only_the_new_level_counts() {
        let points = test_hourly(|hour| if hour < 24 * 25 { 1e9 } else { 4e8 });
        let [_, median, _] = forecast_hours(&points, 180_000_000_000, 24 * 28);
        assert!((median - 1.0).abs() < 0.1, "{median} h");
    }

    #[test]
    fn a_start_in_busy_hours_takes_longer_than_one_at_night() {
        let is_busy = |hour: i64| (9..17).contains(&(hour % 24)) && hour / 24 % 7 < 5;
        let points = test_hourly(|hour| if is_busy(hour) { 5e8 } else { 1e9 });
        let [_, day, _] = forecast_hours(&points, 900_000_000_000, 24 * 28 + 9);
        let [_, night, _] = forecast_hours(&points, 900_000_000_000, 24 * 28 + 20);
        assert!((night - 2.0).abs() < 0.2 && (day - 4.0).abs() < 0.5, "{night} h and {day} h");
    }

    #[test]
    fn fewer_tests_give_a_wider_interval_and_none_give_no_forecast() {
        let points = test_hourly(|_| 1e9);
        let width = |points: &[SeriesPoint]| {
            let [low, _, high] = forecast_hours(points, 4_500_000_000_000, 24 * 28);
            high - low
        };
        let (one, many) = (width(&points[..1]), width(&points));
        assert!(one > 3.0 * many, "{one} h and {many} h");
        assert!(forecast_from_series(&[], 1, 0, None).is_none());
    }

    #[test]
    fn a_disk_slower_than_the_path_decides() {
        let points = test_hourly(|_| 1e9);
        let (forecast, _) =
            forecast_from_series(&points, 90_000_000_000, 0, Some(200_000_000)).unwrap();
        let [low, high] = forecast.interval().map(|end| end.as_secs_f64() / 3600.0);
        assert!(low >= 0.999 && high < 1.1, "{low} to {high} h");
    }

    #[test]
    fn the_chance_of_a_deadline_is_the_share_of_the_courses_before_it() {
        let points = test_hourly(|_| 1e9);
        let (forecast, _) = forecast_from_series(&points, 4_500_000_000_000, 0, None).unwrap();
        assert!((forecast.chance_within(forecast.median()) - 0.5).abs() < 0.01);
        assert!(forecast.chance_within(Duration::ZERO) < 0.001);
        assert!(forecast.chance_within(Duration::MAX) > 0.999);
    }

    #[test]
    fn no_series_panics_or_lasts_for_ever() {
        for value in [0.0, 1e-300, 1.0, 1e99] {
            let points: Vec<SeriesPoint> =
                (0..9).map(|number| SeriesPoint { at_us: number * HOUR_US, value }).collect();
            for bytes in [0, 1, u64::MAX] {
                let _ = forecast_from_series(&points, bytes, i64::MAX, Some(1));
            }
        }
    }
}
