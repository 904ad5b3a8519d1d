//! Tracks the available bandwidth of a path over repeated runs.
//!
//! A Kalman filter follows a local level, which may drift by 2 % of the capacity per minute. A run
//! more than four standard errors away is ignored once; a second one on the same side is a step,
//! and the filter restarts from it.
//!
//! Source: Kalman 1960; the gate is our own. Units: bit/s of IP. Error: its interval.
//! Wrong when: the load varies faster than the runs follow each other.

use super::rate_sweep::BoundedValue;

/// The drift of the level per minute, as a share of the capacity.
const WANDER_RATIO: f64 = 0.02;
/// The number of standard errors beyond which a single run is ignored.
const GATE: f64 = 4.0;
/// The maximum gap; a longer one makes earlier runs irrelevant.
const MAX_GAP_MIN: f64 = 24.0 * 60.0;

/// One run of the series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackingStep {
    /// Minutes since the previous run.
    pub gap_min: f64,
    pub available_bps: f64,
    pub deviation_bps: f64,
    pub capacity_bps: f64,
}

/// Returns the level after the last run (oldest first), or `None` with fewer than two runs.
pub fn track_level(steps: &[TrackingStep]) -> Option<BoundedValue> {
    let first = steps.first().filter(|_| steps.len() > 1)?;
    let (mut level, mut variance) = (first.available_bps, first.deviation_bps.powi(2));
    let mut held: Option<f64> = None;
    for step in &steps[1..] {
        let noise = step.deviation_bps.powi(2).max(1.0);
        let gap = step.gap_min.clamp(0.0, MAX_GAP_MIN);
        variance += (WANDER_RATIO * step.capacity_bps).powi(2) * gap;
        let off = step.available_bps - level;
        let is_far = off.abs() > GATE * (variance + noise).sqrt();
        if is_far && held.is_none_or(|before| before * off < 0.0) {
            held = Some(off);
            continue;
        }
        if is_far {
            (level, variance) = (step.available_bps, noise);
        } else {
            let gain = variance / (variance + noise);
            level += gain * off;
            variance *= 1.0 - gain;
        }
        held = None;
    }
    let deviation = variance.sqrt();
    Some(BoundedValue {
        value: level,
        deviation,
        interval: [(level - 1.96 * deviation).max(0.0), level + 1.96 * deviation],
    })
}

/// Parses a UTC time such as `2026-01-31T12:00:00Z` into minutes since 1970.
pub fn parse_unix_minutes(rfc3339: &str) -> Option<f64> {
    let time: jiff::Timestamp = rfc3339.parse().ok()?;
    Some(time.as_second() as f64 / 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(available: f64) -> TrackingStep {
        TrackingStep {
            gap_min: 1.0,
            available_bps: available * 1e6,
            deviation_bps: 3e6,
            capacity_bps: 100e6,
        }
    }

    #[test]
    fn a_steady_series_is_smoothed() {
        let runs: Vec<TrackingStep> = (0..20).map(|i| step(50.0 + [3.0, -3.0][i % 2])).collect();
        let level = track_level(&runs).unwrap();
        assert!((level.value / 50e6 - 1.0).abs() < 0.04, "{level:?}");
        assert!(level.deviation < 3e6, "{level:?}");
    }

    #[test]
    fn one_wild_run_is_held_back_and_two_are_a_step() {
        let mut runs: Vec<TrackingStep> = (0..10).map(|_| step(50.0)).collect();
        runs.push(step(90.0));
        assert!((track_level(&runs).unwrap().value / 50e6 - 1.0).abs() < 0.02);
        runs.push(step(91.0));
        assert!((track_level(&runs).unwrap().value / 91e6 - 1.0).abs() < 0.02);
    }

    #[test]
    fn one_run_is_no_series() {
        assert_eq!(track_level(&[step(50.0)]), None);
    }

    #[test]
    fn times_are_read_to_the_second() {
        assert_eq!(parse_unix_minutes("1970-01-02T00:01:30Z"), Some(1441.5));
        assert_eq!(parse_unix_minutes("2000-03-01T00:00:00.250Z"), Some(15_864_480.0));
        assert_eq!(parse_unix_minutes("soon"), None);
    }
}
