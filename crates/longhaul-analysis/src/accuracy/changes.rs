//! Accuracy of change detection: changes of level and their size, and false alarms.
//!
//! Two periods of 6 to 60 values each, noise of 1 to 5 %, some outliers; the second period is 0.5
//! to 2 times the first. Also pairs of both directions, one 0.4 to 2.5 times the other. The error
//! is that of the ratio.
//! Units: ratios. Wrong when: the two periods differ in scatter, as on a path that became
//! congested.

use super::rng::Rng;
use super::series::noise;
use super::{CASES, Row, row};
use crate::stats::quantile::{median, sorted};
use crate::stats::{change, sign};

/// The change that the power test has to find, with eight values on each side.
const FOUND_RATIO: f64 = 0.85;
const FOUND_VALUES: usize = 8;

pub fn rows(seed: u64) -> Vec<Row> {
    let rng = |part: u64| Rng::new(seed ^ (part << 32));
    vec![
        sized("change of level, white noise", &mut rng(1), 0.0),
        sized("change of level, correlation 0.5", &mut rng(2), 0.5),
        alarms("change of level, none there", &mut rng(3), 0.0),
        alarms(
            "change of level, none there, correlation 0.5",
            &mut rng(4),
            0.5,
        ),
        found(&mut rng(5)),
        matched(&mut rng(6)),
    ]
}

/// Draws logarithms of values around a level.
fn values(rng: &mut Rng, count: usize, (level, scatter): (f64, f64), correlation: f64) -> Vec<f64> {
    let deviations = noise(rng, count, correlation);
    deviations
        .into_iter()
        .map(|deviation| {
            let wild = if rng.below(25) == 0 { 6.0 } else { 1.0 };
            level + scatter * deviation * wild
        })
        .collect()
}

fn drawn(rng: &mut Rng, ratio: f64, correlation: f64) -> Option<change::Change> {
    let scatter = rng.between(0.01, 0.05);
    let (n, m) = (6 + rng.below(55), 6 + rng.below(55));
    let before = values(rng, n, (20.0, scatter), correlation);
    let after = values(rng, m, (20.0 + ratio.ln(), scatter), correlation);
    change::between(&before, &after)
}

fn sized(method: &'static str, rng: &mut Rng, correlation: f64) -> Row {
    let (mut errors, mut held, mut intervals) = (Vec::new(), 0usize, 0usize);
    for _ in 0..CASES {
        let ratio = rng.between(0.5, 2.0);
        let Some(found) = drawn(rng, ratio, correlation) else {
            continue;
        };
        if let Some([low, high]) = found.interval {
            intervals += 1;
            held += usize::from((low..=high).contains(&ratio.ln()));
        }
        errors.push((found.shift.exp() / ratio - 1.0).abs());
    }
    Row {
        coverage_ratio: Some(held as f64 / intervals.max(1) as f64),
        ..row(method, errors)
    }
}

/// Cases in which a change is reported although there is none; every answer is an error.
fn alarms(method: &'static str, rng: &mut Rng, correlation: f64) -> Row {
    let said = (0..CASES).filter(|_| {
        let found = drawn(rng, 1.0, correlation);
        found.and_then(|f| f.p).is_some_and(|p| p < change::LEVEL)
    });
    row(method, said.map(|_| 1.0).collect())
}

fn found(rng: &mut Rng) -> Row {
    let mut errors = Vec::new();
    for _ in 0..CASES {
        let before = values(rng, FOUND_VALUES, (20.0, 0.05), 0.0);
        let after = values(rng, FOUND_VALUES, (20.0 + FOUND_RATIO.ln(), 0.05), 0.0);
        let told =
            change::between(&before, &after).filter(|c| c.p.is_some_and(|p| p < change::LEVEL));
        errors.extend(told.map(|c| (c.shift.exp() / FOUND_RATIO - 1.0).abs()));
    }
    row("change of 15 %, 8 values each, 5 % noise", errors)
}

/// Evaluates the ratio of two directions, from pairs of runs.
fn matched(rng: &mut Rng) -> Row {
    let (mut errors, mut held, mut intervals) = (Vec::new(), 0usize, 0usize);
    for _ in 0..CASES {
        let (ratio, scatter) = (rng.between(0.4, 2.5), rng.between(0.01, 0.05));
        let count = 6 + rng.below(55);
        let forward = values(rng, count, (20.0 + ratio.ln(), scatter), 0.0);
        let reverse = values(rng, count, (20.0, scatter), 0.0);
        let ratios = sorted(forward.iter().zip(&reverse).map(|(f, r)| f - r));
        if let Some([low, high]) = sign::median_interval(&ratios) {
            intervals += 1;
            held += usize::from((low..=high).contains(&ratio.ln()));
        }
        errors.extend(median(ratios).map(|middle| (middle.exp() / ratio - 1.0).abs()));
    }
    Row {
        coverage_ratio: Some(held as f64 / intervals.max(1) as f64),
        ..row("asymmetry of two directions", errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_found_where_they_are_and_seldom_elsewhere() {
        let rows = rows(0xc);
        let share = |at: usize| rows[at].answered as f64 / rows[at].cases as f64;
        assert!(share(2) <= 0.075, "{:?}", rows[2]);
        assert!(share(3) <= 0.12, "{:?}", rows[3]);
        assert!(share(4) >= 0.95, "{:?}", rows[4]);
    }
}
