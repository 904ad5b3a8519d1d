//! Detects lasting changes in the level of a series.
//!
//! Takes logarithms (or another scale that evens out the noise) and ten-minute medians, subtracts
//! the daily season if that helps, splits by rank sums, and merges with less weight for
//! autocorrelated noise. `docs/methods/detection.md` describes the method, its parameters and its
//! measured quality.
//!
//! Source: docs/methods/detection.md. Units: those of the quantity; times in us.
//! Error: docs/benchmarks.md, "Change detection"; the test `bench/tests/detection` asserts it.
//! Wrong when: the level drifts instead of stepping, a step lasts fewer than three samples, or less
//! than half of the values show it (occasional loss).

mod daily_season;
pub mod event_tracking;
pub mod level_shifts;
pub mod quantity_scale;
mod rank_split;
pub mod report_points;
pub mod series_sample;
pub mod sudden_change;
#[cfg(test)]
mod tests;

use level_shifts::{LevelShift, LevelShifts};
use longhaul_analysis::stats::quantile::{median, quantile, sort_finite};
use longhaul_model::report::v1::event::QuantityLevel;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::SeriesPoint;
use series_sample::SeriesSample;

/// Parameters of the preparation of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectionOptions {
    /// Values closer together than this are replaced by their median over this time.
    pub slot_us: u64,
    /// The period of the season.
    pub day_us: u64,
    /// Set to subtract a season.
    pub season: bool,
    /// The minimum difference of two levels, on the quantity's scale; absent: its default.
    pub least: Option<f64>,
}

impl Default for DetectionOptions {
    fn default() -> Self {
        DetectionOptions { slot_us: 600_000_000, day_us: 86_400_000_000, season: true, least: None }
    }
}

impl DetectionOptions {
    /// Scales all times for a clock that runs `factor` times faster, as in a test.
    #[must_use]
    pub fn with_time_factor(self, factor: u64) -> DetectionOptions {
        let factor = factor.max(1);
        DetectionOptions {
            slot_us: (self.slot_us / factor).max(1),
            day_us: (self.day_us / factor).max(1),
            ..self
        }
    }
}

/// One lasting change of level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelChange {
    /// The index of the first sample after it.
    pub sample: usize,
    /// The times of the last value before it and of the first one after it.
    pub between_us: [i64; 2],
    pub before: QuantityLevel,
    pub after: QuantityLevel,
    /// The score of the change; 1 is the threshold.
    pub score: f64,
    /// The correlation of neighbouring values around their levels.
    pub autocorrelation: f64,
}

impl LevelChange {
    /// Returns `after` divided by `before`; absent if `before` is zero.
    pub fn ratio(&self) -> Option<f64> {
        (self.before.median > 0.0).then(|| self.after.median / self.before.median)
    }
}

/// A series with its samples, levels and changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesLevels {
    pub samples: Vec<SeriesSample>,
    pub changes: Vec<LevelChange>,
    /// On the scale of the quantity, without season.
    scaled: Vec<f64>,
    levels: LevelShifts,
}

/// Returns the lasting changes of a series, in time order.
///
/// Ignores values that are negative or not finite, and repeated times; order does not matter. Only
/// the newest 1008 samples count.
pub fn find_level_changes(
    points: &[SeriesPoint],
    quantity: PathQuantity,
    options: &DetectionOptions,
) -> Vec<LevelChange> {
    analyse_series(points, quantity, options).changes
}

/// Returns the changes with the samples and levels that they are based on.
pub fn analyse_series(
    points: &[SeriesPoint],
    quantity: PathQuantity,
    options: &DetectionOptions,
) -> SeriesLevels {
    let samples = series_sample::build_samples(points, options.slot_us);
    let mut scaled: Vec<f64> =
        samples.iter().map(|it| quantity_scale::scale_value(it.value, quantity.scale())).collect();
    if options.season
        && let Some(season) = daily_season::find_season(&samples, &scaled, options.day_us)
    {
        scaled.iter_mut().zip(season).for_each(|(y, s)| *y -= s);
    }
    let least = options.least.unwrap_or_else(|| quantity_scale::min_lasting_difference(quantity));
    let levels = level_shifts::find_levels(&scaled, least);
    let changes = list_level_changes(&samples, &levels);
    SeriesLevels { samples, changes, scaled, levels }
}

/// Returns the changes at the start of every level but the first.
fn list_level_changes(samples: &[SeriesSample], levels: &LevelShifts) -> Vec<LevelChange> {
    let ranges = levels.ranges(samples.len());
    let sides = ranges.windows(2).zip(&levels.shifts);
    sides
        .filter_map(|(sides, shift)| {
            let [before, after] = [&sides[0], &sides[1]].map(|range| &samples[range.clone()]);
            build_level_change(before, after, shift, levels.autocorrelation)
        })
        .collect()
}

/// Builds the change between two neighbouring parts of a series; `None` if one is empty.
fn build_level_change(
    before: &[SeriesSample],
    after: &[SeriesSample],
    shift: &LevelShift,
    autocorrelation: f64,
) -> Option<LevelChange> {
    let level = |side: &[SeriesSample]| compute_level(side.iter().map(|it| it.value));
    Some(LevelChange {
        sample: shift.at,
        between_us: [before.last()?.last_us, after.first()?.first_us],
        before: level(before)?,
        after: level(after)?,
        score: shift.score,
        autocorrelation,
    })
}

/// Returns the level of the finite values; `None` if there are none.
pub fn compute_level(values: impl Iterator<Item = f64>) -> Option<QuantityLevel> {
    let finite = sort_finite(values);
    let middle = quantile(&finite, 0.5)?;
    Some(QuantityLevel {
        median: middle,
        deviation: median(finite.iter().map(|value| (value - middle).abs()))?,
        samples: u32::try_from(finite.len()).unwrap_or(u32::MAX),
    })
}
