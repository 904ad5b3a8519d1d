//! Applies SLAC's plateau rule, for comparison.
//!
//! Uses a history and a trigger buffer. A value that differs from the history's mean by more than a
//! number of standard deviations goes to the trigger buffer, any other to the history; a usual
//! value while the trigger buffer is not empty moves its oldest value to the history. If the
//! trigger buffer is full and its mean differs enough, the rule raises an alert and the trigger
//! buffer becomes the history. For comparison only: the level analysis decides.
//!
//! Source: McGregor and Braun's idea; parameters of SLAC's pages of 2004 (Logg, Cottrell) and 2008.
//! Units: of the quantity. Error: docs/methods/detection.md compares it with other methods.
//! Wrong when: days have busy hours, values are missing (buffers count points), noise is not
//! normal.

use super::series_sample::{SeriesSample, build_samples, median_spacing_us};
use longhaul_analysis::stats::robust_scale::mean_and_deviation;
use longhaul_model::report::v1::series::SeriesPoint;
use std::collections::VecDeque;

/// The minimum buffer lengths in points; with fewer points the rule is not meaningful.
const MIN_HISTORY_POINTS: usize = 10;
const MIN_TRIGGER_POINTS: usize = 3;
const MINUTE_US: u64 = 60_000_000;

/// The parameters of the rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlateauRule {
    pub history_us: u64,
    pub trigger_us: u64,
    /// The threshold in standard deviations of the history.
    pub sensitivity: f64,
    /// The minimum difference of the means, as a ratio of the history's mean.
    pub threshold_ratio: f64,
    /// Set if rises count as well as drops.
    pub both_ways: bool,
}

/// Parameters for available bandwidth measured every minute.
pub const SLAC_2004: PlateauRule = PlateauRule {
    history_us: 1440 * MINUTE_US,
    trigger_us: 180 * MINUTE_US,
    sensitivity: 2.0,
    threshold_ratio: 0.4,
    both_ways: true,
};

/// Parameters for any series of rates.
pub const SLAC_2008: PlateauRule = PlateauRule {
    history_us: 7200 * MINUTE_US,
    trigger_us: 360 * MINUTE_US,
    sensitivity: 2.0,
    threshold_ratio: 0.33,
    both_ways: false,
};

/// An alert: the trigger buffer was full and differed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlateauAlert {
    /// The first sample in the trigger buffer, and the one that filled it.
    pub sample: usize,
    pub filled: usize,
    pub between_us: [i64; 2],
    pub history_mean: f64,
    pub trigger_mean: f64,
}

/// The figures that SLAC's pages showed for each host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlateauResult {
    pub alerts: Vec<PlateauAlert>,
    /// The number of times that the trigger buffer began to fill, and of those without an alert.
    pub triggers: u32,
    pub aborted: u32,
    /// The lengths of the buffers in points.
    pub history_points: usize,
    pub trigger_points: usize,
}

/// Applies the rule to a series, after the same cleaning and thinning as in the detection.
pub fn apply_plateau_rule(
    points: &[SeriesPoint],
    slot_us: u64,
    rule: &PlateauRule,
) -> PlateauResult {
    let samples = build_samples(points, slot_us);
    let Some(spacing) = median_spacing_us(samples.iter().map(|it| it.first_us)) else {
        return PlateauResult::default();
    };
    let points_in = |span: u64| (span as f64 / spacing.max(1.0)).round() as usize;
    let mut buffers = PlateauBuffers {
        rule,
        history: VecDeque::new(),
        trigger: VecDeque::new(),
        found: PlateauResult {
            history_points: points_in(rule.history_us)
                .clamp(MIN_HISTORY_POINTS, samples.len().max(MIN_HISTORY_POINTS)),
            trigger_points: points_in(rule.trigger_us)
                .clamp(MIN_TRIGGER_POINTS, samples.len().max(MIN_TRIGGER_POINTS)),
            ..PlateauResult::default()
        },
        learned: false,
    };
    for i in 0..samples.len() {
        buffers.add_sample(&samples, i);
    }
    buffers.found
}

struct PlateauBuffers<'a> {
    rule: &'a PlateauRule,
    history: VecDeque<f64>,
    /// Values with their indices.
    trigger: VecDeque<(usize, f64)>,
    found: PlateauResult,
    /// Set once the history has been full.
    learned: bool,
}

impl PlateauBuffers<'_> {
    fn add_sample(&mut self, samples: &[SeriesSample], i: usize) {
        let value = samples[i].value;
        self.learned |= self.history.len() >= self.found.history_points;
        if !self.learned || !self.is_beyond(value) {
            self.add_to_history(value);
            if let Some((_, oldest)) = self.trigger.pop_front() {
                self.add_to_history(oldest);
                self.found.aborted += u32::from(self.trigger.is_empty());
            }
            return;
        }
        self.found.triggers += u32::from(self.trigger.is_empty());
        self.trigger.push_back((i, value));
        if self.trigger.len() >= self.found.trigger_points {
            self.check_alert(samples, i);
        }
    }

    fn add_to_history(&mut self, value: f64) {
        self.history.push_back(value);
        if self.history.len() > self.found.history_points {
            self.history.pop_front();
        }
    }

    fn is_beyond(&self, value: f64) -> bool {
        let history: Vec<f64> = self.history.iter().copied().collect();
        let Some((mean, deviation)) = mean_and_deviation(&history) else {
            return false;
        };
        let reach = self.rule.sensitivity * deviation;
        value < mean - reach || self.rule.both_ways && value > mean + reach
    }

    fn check_alert(&mut self, samples: &[SeriesSample], filled: usize) {
        let mean = |sum: f64, count: usize| sum / count.max(1) as f64;
        let history_mean = mean(self.history.iter().sum(), self.history.len());
        let trigger_mean = mean(self.trigger.iter().map(|t| t.1).sum(), self.trigger.len());
        let difference = (trigger_mean - history_mean) / history_mean.abs().max(f64::MIN_POSITIVE);
        let counts = if self.rule.both_ways { difference.abs() } else { -difference };
        if counts >= self.rule.threshold_ratio {
            let first = self.trigger[0].0;
            self.found.alerts.push(PlateauAlert {
                sample: first,
                filled,
                between_us: [samples[first.saturating_sub(1)].last_us, samples[first].first_us],
                history_mean,
                trigger_mean,
            });
            self.history = self.trigger.iter().map(|t| t.1).collect();
        } else {
            self.found.aborted += 1;
        }
        self.trigger.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;
    const SLOT: u64 = 600_000_000;

    /// A half-hourly series with a ripple of 2 %.
    fn series(value: impl Fn(i64) -> f64) -> Vec<SeriesPoint> {
        (0..48 * 10)
            .map(|i| SeriesPoint {
                at_us: i * HOUR / 2,
                value: value(i) * (1.0 + 0.02 * ((i * 7 % 5) as f64 - 2.0) / 2.0),
            })
            .collect()
    }

    #[test]
    fn a_drop_after_five_days_is_told_within_six_hours() {
        let at = 48 * 6;
        let points = series(|i| if i < at { 100.0 } else { 64.0 });
        let found = apply_plateau_rule(&points, SLOT, &SLAC_2008);
        assert_eq!((found.history_points, found.trigger_points), (240, 12));
        assert_eq!(found.alerts.len(), 1, "{found:?}");
        let alert = found.alerts[0];
        assert_eq!(alert.sample, at as usize);
        assert!(points[alert.filled].at_us - at * HOUR / 2 <= 6 * HOUR);
    }

    #[test]
    fn the_rule_of_2008_knows_drops_only_and_that_of_2004_rises_too() {
        let points = series(|i| if i < 48 * 6 { 100.0 } else { 160.0 });
        assert!(apply_plateau_rule(&points, SLOT, &SLAC_2008).alerts.is_empty());
        assert_eq!(apply_plateau_rule(&points, SLOT, &SLAC_2004).alerts.len(), 1);
    }

    #[test]
    fn small_drops_and_short_ones_are_aborted() {
        let small = series(|i| if i < 48 * 6 { 100.0 } else { 80.0 });
        let found = apply_plateau_rule(&small, SLOT, &SLAC_2008);
        assert!(found.alerts.is_empty() && found.aborted > 0, "{found:?}");
        let short = series(|i| if (300..305).contains(&i) { 20.0 } else { 100.0 });
        let found = apply_plateau_rule(&short, SLOT, &SLAC_2008);
        assert!(found.alerts.is_empty() && found.triggers > 0, "{found:?}");
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(apply_plateau_rule(&[], SLOT, &SLAC_2008), PlateauResult::default());
    }
}
