//! Synthetic throughput series with known changes, to evaluate detectors.
//!
//! Log-normal autocorrelated noise, lower values on weekday afternoons, occasional very low values,
//! missing values, and up to three steps. The same seed always gives the same series.
//!
//! Source: our own; noise and steps are typical of such series.
//! Units: bit/s, us. Error: none: the truth is known.
//! Wrong when: real series differ; they have drift and changing noise, these do not.

use longhaul_model::report::v1::SeriesPoint;
use longhaul_model::splitmix::SplitMix64;

const DAY_US: i64 = 86_400_000_000;
const HOUR_US: f64 = 3_600_000_000.0;
/// A Monday.
const BEGIN_US: i64 = 19_723 * DAY_US;
const MISSING: f64 = 0.02;
const LEVEL_BPS: f64 = 300e6;

/// The interval and the duration of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesCadence {
    pub title: &'static str,
    pub spacing_us: i64,
    pub days: i64,
    /// The tolerance, in samples, within which a change counts as found.
    pub tolerance: usize,
}

pub const CADENCES: [SeriesCadence; 3] = [
    SeriesCadence {
        title: "every 6 h, 60 d",
        spacing_us: 6 * 3_600_000_000,
        days: 60,
        tolerance: 3,
    },
    SeriesCadence {
        title: "every 2 h, 60 d",
        spacing_us: 2 * 3_600_000_000,
        days: 60,
        tolerance: 6,
    },
    SeriesCadence { title: "every 10 min, 7 d", spacing_us: 600_000_000, days: 7, tolerance: 18 },
];

/// A series and the times at which its level changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticSeries {
    pub points: Vec<SeriesPoint>,
    /// The time of the first planned value after each step.
    pub changes_us: Vec<i64>,
}

/// The parameters of a series.
#[derive(Debug, Clone, Copy)]
struct SeriesParameters {
    noise: f64,
    memory: f64,
    dip: f64,
    low_share: f64,
}

impl SeriesParameters {
    fn draw(rng: &mut SplitMix64) -> SeriesParameters {
        SeriesParameters {
            // Log-uniform: most series have little noise, a few have much.
            noise: 0.04 * 5f64.powf(rng.between(0.0, 1.0)),
            memory: rng.between(0.0, 0.4),
            dip: rng.between(0.0, 0.35),
            low_share: rng.between(0.0, 0.05),
        }
    }
}

/// Returns `count` series of one cadence; a quarter of them has no step.
pub fn draw_series_set(cadence: &SeriesCadence, count: usize, seed: u64) -> Vec<SyntheticSeries> {
    let mut rng = SplitMix64::new(seed ^ cadence.spacing_us as u64);
    (0..count).map(|i| draw_series(cadence, i % 4, &mut rng)).collect()
}

fn draw_series(cadence: &SeriesCadence, steps: usize, rng: &mut SplitMix64) -> SyntheticSeries {
    let count = (cadence.days * DAY_US / cadence.spacing_us) as usize;
    let character = SeriesParameters::draw(rng);
    let places = draw_step_positions(count, steps, rng);
    let (mut factor, mut wander) = (1.0, rng.normal());
    let fresh = (1.0 - character.memory * character.memory).sqrt();
    let mut points = Vec::with_capacity(count);
    for i in 0..count {
        if places.contains(&i) {
            factor *= draw_step_ratio(factor, rng);
        }
        wander = character.memory * wander + fresh * rng.normal();
        let jitter = rng.between(0.0, 0.02 * cadence.spacing_us as f64) as i64;
        let at_us = BEGIN_US + i as i64 * cadence.spacing_us + jitter;
        let low = rng.between(0.0, 1.0) < character.low_share;
        let fault = if low { rng.between(0.1, 0.6) } else { 1.0 };
        let busy = 1.0 - character.dip * daily_load(at_us);
        if rng.between(0.0, 1.0) >= MISSING {
            let value = LEVEL_BPS * factor * busy * fault * (character.noise * wander).exp();
            points.push(SeriesPoint { at_us, value });
        }
    }
    let time = |i: &usize| BEGIN_US + *i as i64 * cadence.spacing_us;
    SyntheticSeries { points, changes_us: places.iter().map(time).collect() }
}

/// Draws positions an eighth of the series or more apart from each other and from the ends.
fn draw_step_positions(count: usize, steps: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let apart = count / 8;
    let room = count - apart * (steps + 1);
    let mut offsets: Vec<usize> = (0..steps).map(|_| rng.below(room)).collect();
    offsets.sort_unstable();
    let spread = offsets.iter().enumerate();
    spread.map(|(i, offset)| offset + apart * (i + 1)).collect()
}

/// Draws a step down by 15 to 60 %, or up by the inverse; the level stays near that at the start.
fn draw_step_ratio(factor: f64, rng: &mut SplitMix64) -> f64 {
    let ratio = rng.between(0.4, 0.85);
    let down = if factor < 0.3 { false } else { factor > 3.0 || rng.below(2) == 0 };
    if down { ratio } else { 1.0 / ratio }
}

/// Returns the load from 0 at night to 1 at 15:00 on a weekday.
fn daily_load(at_us: i64) -> f64 {
    let weekday = (at_us.div_euclid(DAY_US) + 3).rem_euclid(7) < 5;
    let hour = at_us.rem_euclid(DAY_US) as f64 / HOUR_US;
    let away = (hour - 15.0).abs() / 6.0;
    if weekday && away < 1.0 { (std::f64::consts::FRAC_PI_2 * away).cos() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_series_with_steps_as_told() {
        for cadence in &CADENCES {
            let found = draw_series_set(cadence, 8, 7);
            assert_eq!(found, draw_series_set(cadence, 8, 7));
            for (i, case) in found.iter().enumerate() {
                assert_eq!(case.changes_us.len(), i % 4);
                assert!(case.points.iter().all(|p| p.value > 0.0));
                assert!(case.points.is_sorted_by_key(|p| p.at_us));
            }
        }
    }
}
