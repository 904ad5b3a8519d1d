//! Detects lasting changes in the level of a series.
//!
//! Takes logarithms (or another scale that evens out the noise) and ten-minute medians, subtracts
//! the daily season if that helps, splits by rank sums, and merges with less weight for
//! autocorrelated noise. `docs/methods/detection.md` describes the method, its parameters and its
//! measured quality.
//!
//! Source: docs/methods/detection.md. Units: those of the quantity; times in us.
//! Error: as measured by `cargo xtask bench detect`.
//! Wrong when: the level drifts instead of stepping, a step lasts fewer than three samples, or less
//! than half of the values show it (occasional loss).

pub mod alarm;
pub mod levels;
pub mod plateau;
pub mod points;
mod ranks;
pub mod sample;
pub mod scale;
mod season;
pub mod synthetic;
#[cfg(test)]
mod tests;
pub mod watcher;

use crate::stats::quantile::median;
use levels::Levels;
use longhaul_model::report::v1::event::Level;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Point;
use sample::Sample;
use std::ops::Range;

/// Parameters of the preparation of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Values closer together than this are replaced by their median over this time.
    pub slot_us: u64,
    /// The period of the season.
    pub day_us: u64,
    /// Set to subtract a season.
    pub season: bool,
    /// The minimum difference of two levels, on the quantity's scale; absent: its default.
    pub least: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            slot_us: 600_000_000,
            day_us: 86_400_000_000,
            season: true,
            least: None,
        }
    }
}

impl Options {
    /// Scales all times for a clock that runs `factor` times faster, as in a test.
    #[must_use]
    pub fn quicker(self, factor: u64) -> Options {
        let factor = factor.max(1);
        Options {
            slot_us: (self.slot_us / factor).max(1),
            day_us: (self.day_us / factor).max(1),
            ..self
        }
    }
}

/// One lasting change of level.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The index of the first sample after it.
    pub sample: usize,
    /// The times of the last value before it and of the first one after it.
    pub between_us: [i64; 2],
    pub before: Level,
    pub after: Level,
    /// The score of the change; 1 is the threshold.
    pub score: f64,
    /// The correlation of neighbouring values around their levels.
    pub autocorrelation: f64,
}

impl Change {
    /// Returns `after` divided by `before`; absent if `before` is zero.
    pub fn ratio(&self) -> Option<f64> {
        ratio(&self.before, &self.after)
    }
}

/// A series with its samples, levels and changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    pub samples: Vec<Sample>,
    pub changes: Vec<Change>,
    /// On the scale of the quantity, without season.
    scaled: Vec<f64>,
    levels: Levels,
}

/// Returns the lasting changes of a series, in time order.
///
/// Ignores values that are negative or not finite, and repeated times; order does not matter. Only
/// the newest 1008 samples count.
pub fn steps(points: &[Point], quantity: Quantity, options: &Options) -> Vec<Change> {
    course(points, quantity, options).changes
}

/// Returns the changes with the samples and levels that they are based on.
pub fn course(points: &[Point], quantity: Quantity, options: &Options) -> Course {
    let samples = sample::samples(points, options.slot_us);
    let mut scaled: Vec<f64> = samples
        .iter()
        .map(|it| scale::even(it.value, quantity.scale()))
        .collect();
    if options.season
        && let Some(season) = season::season(&samples, &scaled, options.day_us)
    {
        scaled.iter_mut().zip(season).for_each(|(y, s)| *y -= s);
    }
    let least = options.least.unwrap_or_else(|| scale::least(quantity));
    let levels = levels::levels(&scaled, least);
    let changes = changes(&samples, &levels);
    Course {
        samples,
        changes,
        scaled,
        levels,
    }
}

fn changes(samples: &[Sample], levels: &Levels) -> Vec<Change> {
    let ranges = levels.ranges(samples.len());
    let sides = ranges.windows(2).zip(&levels.shifts);
    sides
        .map(|(sides, shift)| Change {
            sample: shift.at,
            between_us: [samples[shift.at - 1].last_us, samples[shift.at].first_us],
            before: level(samples, sides[0].clone()),
            after: level(samples, sides[1].clone()),
            score: shift.score,
            autocorrelation: levels.autocorrelation,
        })
        .collect()
}

fn level(samples: &[Sample], range: Range<usize>) -> Level {
    let values = || samples[range.clone()].iter().map(|it| it.value);
    let middle = median(values()).unwrap_or(0.0);
    Level {
        median: middle,
        deviation: median(values().map(|v| (v - middle).abs())).unwrap_or(0.0),
        samples: range.len() as u32,
    }
}

fn ratio(before: &Level, after: &Level) -> Option<f64> {
    (before.median > 0.0).then(|| after.median / before.median)
}
