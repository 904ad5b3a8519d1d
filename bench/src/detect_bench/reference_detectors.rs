//! The compared detectors, over plain values.

use super::ChangePositions;
use longhaul_history::change_detection::level_shifts;
use longhaul_history::change_detection::plateau_rule::{self, PlateauRule};
use longhaul_model::report::v1::series::SeriesPoint;
use std::f64::consts::PI;

/// Plain values are treated as hourly.
const HOUR_US: i64 = 3_600_000_000;
const SLOT_US: u64 = 600_000_000;

/// The detector of longhaul, but without a minimum difference, which plain values lack.
pub fn detect_steps(values: &[f64]) -> ChangePositions {
    let found = level_shifts::find_levels(values, 0.0);
    found.shifts.iter().map(|shift| shift.at).collect()
}

pub fn detect_plateaus_2004(values: &[f64]) -> ChangePositions {
    detect_plateaus(values, &plateau_rule::SLAC_2004)
}

pub fn detect_plateaus_2008(values: &[f64]) -> ChangePositions {
    detect_plateaus(values, &plateau_rule::SLAC_2008)
}

fn detect_plateaus(values: &[f64], rule: &PlateauRule) -> ChangePositions {
    // A series below zero is shifted up, because the rule judges ratios.
    let least = values.iter().copied().fold(0.0, f64::min);
    let hours = (0i64..).zip(values);
    let points: Vec<SeriesPoint> =
        hours.map(|(i, value)| SeriesPoint { at_us: i * HOUR_US, value: value - least }).collect();
    let found = plateau_rule::apply_plateau_rule(&points, SLOT_US, rule);
    found.alerts.iter().map(|alert| alert.sample).collect()
}

/// Pruned exact linear time (Killick, Fearnhead, Eckley 2012): minimises the squared errors of
/// standardised values, as in the benchmark, with two parameters per change.
pub fn detect_pelt(values: &[f64]) -> ChangePositions {
    let scaled = standardise_values(values);
    let count = scaled.len();
    let penalty = 2.0 * (count as f64).ln();
    let sums = PrefixSums::new(&scaled);
    // The minimum cost of the values before each position, and the beginning of the last segment.
    let mut best = vec![(-penalty, 0usize); count + 1];
    let mut open = vec![0usize];
    for end in 1..=count {
        let costs = open.iter().map(|&begin| (best[begin].0 + sums.cost(begin, end), begin));
        let costs: Vec<(f64, usize)> = costs.collect();
        let least = costs.iter().min_by(|a, b| a.0.total_cmp(&b.0)).copied();
        let (cost, begin) = least.unwrap_or_default();
        best[end] = (cost + penalty, begin);
        let can_win = costs.iter().filter(|it| it.0 <= cost + penalty);
        open = can_win.map(|it| it.1).chain(std::iter::once(end)).collect();
    }
    let mut places: ChangePositions =
        std::iter::successors(Some(best[count].1), |&at| Some(best[at].1))
            .take_while(|&at| at > 0)
            .collect();
    places.reverse();
    places
}

/// Sums of values and of their squares before each position.
struct PrefixSums(Vec<(f64, f64)>);

impl PrefixSums {
    fn new(values: &[f64]) -> PrefixSums {
        let mut sums = vec![(0.0, 0.0)];
        for value in values {
            let (sum, squares) = sums[sums.len() - 1];
            sums.push((sum + value, squares + value * value));
        }
        PrefixSums(sums)
    }

    /// Returns the squared errors of a segment about its mean.
    fn cost(&self, begin: usize, end: usize) -> f64 {
        let ((a, aa), (b, bb)) = (self.0[begin], self.0[end]);
        bb - aa - (b - a).powi(2) / (end - begin) as f64
    }
}

/// The expected number of values between changes.
const RUN_LENGTH: f64 = 100.0;
/// Run lengths less likely than this are dropped.
const MIN_PROBABILITY: f64 = 1e-12;

/// The posterior of a run of values: normal-gamma, of its mean and precision.
#[derive(Clone, Copy)]
struct RunPosterior {
    mean: f64,
    weight: f64,
    shape: f64,
    rate: f64,
}

const PRIOR: RunPosterior = RunPosterior { mean: 0.0, weight: 1.0, shape: 1.0, rate: 1.0 };

impl RunPosterior {
    /// Returns the logarithm of Student's density of the next value.
    fn log_density(&self, value: f64) -> f64 {
        let freedom = 2.0 * self.shape;
        let scale = self.rate * (self.weight + 1.0) / (self.shape * self.weight);
        let away = (value - self.mean).powi(2) / (freedom * scale);
        let density = compute_ln_gamma(self.shape + 0.5) - compute_ln_gamma(self.shape);
        density - 0.5 * (freedom * PI * scale).ln() - (self.shape + 0.5) * away.ln_1p()
    }

    fn update(&self, value: f64) -> RunPosterior {
        let weight = self.weight + 1.0;
        let away = (value - self.mean).powi(2);
        RunPosterior {
            mean: (self.weight * self.mean + value) / weight,
            weight,
            shape: self.shape + 0.5,
            rate: self.rate + self.weight * away / (2.0 * weight),
        }
    }
}

/// Computes Stirling's series from 7 on, and a recurrence below.
fn compute_ln_gamma(x: f64) -> f64 {
    if x < 7.0 {
        return compute_ln_gamma(x + 1.0) - x.ln();
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series
}

/// Bayesian online change points (Adams and MacKay 2007); positions from the most likely run
/// lengths, from the end backwards.
pub fn detect_bocpd(values: &[f64]) -> ChangePositions {
    let likeliest = find_run_lengths(&standardise_values(values));
    let mut places = Vec::new();
    let mut end = values.len();
    while end > 0 {
        let begin = end - likeliest[end - 1].clamp(1, end);
        if begin > 0 {
            places.push(begin);
        }
        end = begin;
    }
    places.reverse();
    places
}

/// Returns, after each value, the most likely number of values since the last change.
fn find_run_lengths(values: &[f64]) -> Vec<usize> {
    let hazard = 1.0 / RUN_LENGTH;
    let mut runs: Vec<(usize, f64, RunPosterior)> = vec![(0, 1.0, PRIOR)];
    let mut likeliest = Vec::with_capacity(values.len());
    for &value in values {
        let grown: Vec<(usize, f64, RunPosterior)> = runs
            .iter()
            .map(|(length, weight, belief)| {
                let weight = weight * belief.log_density(value).exp();
                (length + 1, weight, belief.update(value))
            })
            .collect();
        let all: f64 = grown.iter().map(|run| run.1).sum();
        let new = (0, hazard, PRIOR);
        let kept = grown.into_iter().map(|(length, weight, belief)| {
            let share = if all > 0.0 { weight / all } else { 0.0 };
            (length, share * (1.0 - hazard), belief)
        });
        runs = std::iter::once(new).chain(kept.filter(|run| run.1 > MIN_PROBABILITY)).collect();
        // An empty run says nothing of the values that were seen.
        let best = runs[1..].iter().max_by(|a, b| a.1.total_cmp(&b.1));
        likeliest.push(best.map_or(1, |run| run.0));
    }
    likeliest
}

fn standardise_values(values: &[f64]) -> Vec<f64> {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    let scale = variance.sqrt().max(f64::MIN_POSITIVE);
    values.iter().map(|v| (v - mean) / scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect_bench::DETECTORS;

    #[test]
    fn every_detector_but_none_finds_a_clear_step_down() {
        // After five days of hourly values, for the plateau rule's history.
        let values: Vec<f64> = (0..200)
            .map(|i| f64::from(i * 37 % 11) / 10.0 + if i < 140 { 9.0 } else { 4.0 })
            .collect();
        for (name, detector) in &DETECTORS[1..] {
            let found = detector(&values);
            assert!(found.len() == 1 && found[0].abs_diff(140) <= 1, "{name}: {found:?}");
        }
    }

    #[test]
    fn the_gamma_function_agrees_with_factorials() {
        for (x, factorial) in [(1.0, 1.0), (2.0, 1.0), (5.0, 24.0), (11.0, 3_628_800.0_f64)] {
            assert!((compute_ln_gamma(x) - factorial.ln()).abs() < 1e-6, "{x}");
        }
        assert!((compute_ln_gamma(0.5) - PI.sqrt().ln()).abs() < 1e-6);
    }
}
