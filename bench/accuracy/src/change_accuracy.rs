//! Accuracy of change detection: changes of level and their size, and false alarms.
//!
//! Two periods of 6 to 60 values each, noise of 1 to 5 %, some outliers; the second period is 0.5
//! to 2 times the first. Also pairs of both directions, one 0.4 to 2.5 times the other. The error
//! is that of the ratio.
//! Units: ratios. Wrong when: the two periods differ in scatter, as on a path that became
//! congested.

use super::rate_series::draw_noise;
use super::{AccuracyRow, CASES, ErrorTally};
use longhaul_analysis::stats::{median, sample_change, sign_test, sort_finite};
use longhaul_model::splitmix::SplitMix64;

/// The change that the power test has to find, with eight values on each side.
const FOUND_RATIO: f64 = 0.85;
const FOUND_VALUES: usize = 8;

pub fn evaluate_changes(seed: u64) -> Vec<AccuracyRow> {
    let rng = |part: u64| SplitMix64::new(seed ^ (part << 32));
    vec![
        evaluate_change_size("change of level, white noise", &mut rng(1), 0.0),
        evaluate_change_size("change of level, correlation 0.5", &mut rng(2), 0.5),
        evaluate_false_alarms("change of level, none there", &mut rng(3), 0.0),
        evaluate_false_alarms("change of level, none there, correlation 0.5", &mut rng(4), 0.5),
        evaluate_detection_power(&mut rng(5)),
        evaluate_direction_ratio(&mut rng(6)),
    ]
}

/// Draws logarithms of values around a level.
fn draw_values(
    rng: &mut SplitMix64,
    count: usize,
    (level, scatter): (f64, f64),
    correlation: f64,
) -> Vec<f64> {
    let deviations = draw_noise(rng, count, correlation);
    deviations
        .into_iter()
        .map(|deviation| {
            let wild = if rng.below(25) == 0 { 6.0 } else { 1.0 };
            level + scatter * deviation * wild
        })
        .collect()
}

fn draw_change(
    rng: &mut SplitMix64,
    ratio: f64,
    correlation: f64,
) -> Option<sample_change::SampleChange> {
    let scatter = rng.between(0.01, 0.05);
    let (n, m) = (6 + rng.below(55), 6 + rng.below(55));
    let before = draw_values(rng, n, (20.0, scatter), correlation);
    let after = draw_values(rng, m, (20.0 + ratio.ln(), scatter), correlation);
    sample_change::compare_samples(&before, &after)
}

fn evaluate_change_size(
    method: &'static str,
    rng: &mut SplitMix64,
    correlation: f64,
) -> AccuracyRow {
    let mut tally = ErrorTally::default();
    for _ in 0..CASES {
        let ratio = rng.between(0.5, 2.0);
        let found = draw_change(rng, ratio, correlation);
        tally.add_interval(found.as_ref().and_then(|found| found.interval), ratio.ln());
        tally.add_error(found.map(|found| (found.shift.exp() / ratio - 1.0).abs()));
    }
    tally.row(method)
}

/// Cases in which a change is reported although there is none; every answer is an error.
fn evaluate_false_alarms(
    method: &'static str,
    rng: &mut SplitMix64,
    correlation: f64,
) -> AccuracyRow {
    let errors = (0..CASES).map(|_| {
        let found = draw_change(rng, 1.0, correlation);
        found.and_then(|f| f.p).filter(|p| *p < sample_change::LEVEL).map(|_| 1.0)
    });
    ErrorTally::of(errors).row(method)
}

fn evaluate_detection_power(rng: &mut SplitMix64) -> AccuracyRow {
    let errors = (0..CASES).map(|_| {
        let before = draw_values(rng, FOUND_VALUES, (20.0, 0.05), 0.0);
        let after = draw_values(rng, FOUND_VALUES, (20.0 + FOUND_RATIO.ln(), 0.05), 0.0);
        let comparison = sample_change::compare_samples(&before, &after)
            .filter(|c| c.p.is_some_and(|p| p < sample_change::LEVEL));
        comparison.map(|c| (c.shift.exp() / FOUND_RATIO - 1.0).abs())
    });
    ErrorTally::of(errors).row("change of 15 %, 8 values each, 5 % noise")
}

/// Evaluates the ratio of two directions, from pairs of runs.
fn evaluate_direction_ratio(rng: &mut SplitMix64) -> AccuracyRow {
    let mut tally = ErrorTally::default();
    for _ in 0..CASES {
        let (ratio, scatter) = (rng.between(0.4, 2.5), rng.between(0.01, 0.05));
        let count = 6 + rng.below(55);
        let forward = draw_values(rng, count, (20.0 + ratio.ln(), scatter), 0.0);
        let reverse = draw_values(rng, count, (20.0, scatter), 0.0);
        let ratios = sort_finite(forward.iter().zip(&reverse).map(|(f, r)| f - r));
        tally.add_interval(sign_test::median_interval(&ratios), ratio.ln());
        tally.add_error(median(ratios).map(|middle| (middle.exp() / ratio - 1.0).abs()));
    }
    tally.row("asymmetry of two directions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_found_where_they_are_and_seldom_elsewhere() {
        let rows = evaluate_changes(0xc);
        let share = |at: usize| rows[at].answered as f64 / rows[at].cases as f64;
        assert!(share(2) <= 0.075, "{:?}", rows[2]);
        assert!(share(3) <= 0.12, "{:?}", rows[3]);
        assert!(share(4) >= 0.95, "{:?}", rows[4]);
    }
}
