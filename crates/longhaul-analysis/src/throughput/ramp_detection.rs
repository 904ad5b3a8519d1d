//! Finds the end of the ramp, where the steady part begins.
//!
//! The marginal standard error rule (White 1997, MSER): cut the beginning at the point that
//! minimizes the error of the mean of the rest: (sum of squared deviations) / (number of values)².
//! A running median of five first removes single dips, which are not changes of regime.
//!
//! Source: as named. Units: microseconds. Error: about one interval (`accuracy`).
//! Wrong when: the run varies more slowly than it lasts; then no steady part is given.

use super::arrival_timeline::RunArrivals;
use crate::stats::quantile::median;
use crate::stats::robust_scale::running_median;
use longhaul_model::report::v1::analysis::SteadySpan;

/// Dips shorter than half of this many intervals are not changes of regime.
const DIP_WIDTH: usize = 5;
/// The minimum number of intervals to see steadiness.
const MIN_BINS: usize = 6;
/// The latest cut, as a share of the run (Law's rule for MSER).
const LATEST_CUT_RATIO: f64 = 0.6;
/// The minimum rate at which the steady part begins, as a share of its own median.
const FIRST_RATE_RATIO: f64 = 0.75;
/// Rates just before the cut within these shares of the level belong to the level.
const LEVEL_RATIOS: std::ops::RangeInclusive<f64> = 0.88..=1.3;
/// If the last third is faster than the first by this factor, the run is still climbing.
const CLIMB_RATIO: f64 = 1.25;

/// Returns the steady part, from the data or the plan; `None` if the run never settled.
pub fn find_steady_span(arrivals: &RunArrivals, warm_up_us: Option<u64>) -> Option<SteadySpan> {
    let to_us = arrivals.to_us();
    if let Some(warm_up) = warm_up_us {
        let from_us = arrivals.from_us().saturating_add(warm_up);
        return (from_us < to_us).then_some(SteadySpan { from_us, to_us });
    }
    let rates = arrivals.rates_bps();
    let cut = find_ramp_end(&running_median(&rates, DIP_WIDTH))
        .filter(|cut| !is_climbing(&rates[*cut..]))?;
    let cut = skip_release_burst(&rates, cut);
    Some(SteadySpan { from_us: arrivals.bins[cut].from_us, to_us })
}

/// Returns true if the rate was still growing when the run ended.
pub fn is_still_climbing(arrivals: &RunArrivals) -> bool {
    is_climbing(&arrivals.rates_bps())
}

fn find_ramp_end(rates: &[f64]) -> Option<usize> {
    if rates.len() < MIN_BINS {
        return None;
    }
    // Near the end the scatter is small by chance, so the cut is searched before it.
    let latest = (LATEST_CUT_RATIO * rates.len() as f64) as usize;
    let least = compute_marginal_errors(rates)
        .into_iter()
        .enumerate()
        .take(latest + 1)
        .min_by(|a, b| a.1.total_cmp(&b.1))?
        .0;
    let level = median(rates[least..].iter().copied())?;
    let low = (least..rates.len()).find(|i| rates[*i] >= FIRST_RATE_RATIO * level)?;
    // The rule may cut into chance lows of the steady part; rates at the level are added back.
    let outside = |i: &usize| !LEVEL_RATIOS.contains(&(rates[*i] / level));
    let cut = (0..low).rev().find(outside).map_or(0, |i| i + 1);
    (cut <= latest && level > 0.0).then_some(cut)
}

/// While a gap in the sequence is repaired nothing is delivered, and then all queued data at once.
/// A steady part that began between the two would count bytes that took longer to arrive.
fn skip_release_burst(rates: &[f64], cut: usize) -> usize {
    let Some(level) = median(rates[cut..].iter().copied()) else {
        return cut;
    };
    let held_back = cut > 0 && rates[cut - 1] < FIRST_RATE_RATIO * level;
    let released = (cut..rates.len().min(cut + DIP_WIDTH))
        .rev()
        .find(|i| rates[*i] > LEVEL_RATIOS.end() * level);
    released.filter(|last| held_back && last + MIN_BINS < rates.len()).map_or(cut, |last| last + 1)
}

/// Returns true if the last third is well above the first. Means, because a window that arrives
/// once per RTT gives rates of two or three windows per interval, between which a median jumps.
fn is_climbing(rates: &[f64]) -> bool {
    let third = rates.len().div_ceil(3);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    mean(&rates[rates.len() - third..]) > CLIMB_RATIO * mean(&rates[..third])
}

/// Returns for each cut the squared standard error of the mean of the rest, except for the last few
/// values, whose scatter is too small by chance.
fn compute_marginal_errors(rates: &[f64]) -> Vec<f64> {
    let mut errors = vec![f64::INFINITY; rates.len()];
    let (mut mean, mut squares) = (0.0, 0.0);
    for (left, i) in (1u32..).zip((0..rates.len()).rev()) {
        let count = f64::from(left);
        let step = rates[i] - mean;
        mean += step / count;
        squares += step * (rates[i] - mean);
        if left as usize >= MIN_BINS / 2 {
            errors[i] = squares / (count * count);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramped(total: usize, ramp: usize) -> Vec<f64> {
        let climb = (0..ramp).map(|i| 1e8 / 2f64.powi((ramp - i) as i32));
        climb.chain((ramp..total).map(|i| 1e8 + (i % 3) as f64 * 1e6)).collect()
    }

    fn from_of(rates: &[f64]) -> Option<u64> {
        find_steady_span(&RunArrivals::from_rates(rates, 100_000), None).map(|s| s.from_us)
    }

    #[test]
    fn the_ramp_ends_where_the_rate_stops_doubling() {
        for ramp in [0, 3, 8, 13] {
            let from = from_of(&ramped(60, ramp)).unwrap() / 100_000;
            assert!(from.abs_diff(ramp as u64) <= 1, "ramp of {ramp} ended at {from}");
        }
    }

    #[test]
    fn one_dip_is_no_second_ramp() {
        let mut rates = ramped(60, 6);
        rates[25] = 0.0;
        rates[26] = 1e7;
        assert!(from_of(&rates).unwrap().abs_diff(600_000) <= 100_000);
    }

    #[test]
    fn what_waited_behind_a_hole_is_not_counted_to_the_steady_part() {
        let mut rates = vec![1e8; 20];
        rates.extend([2e7, 0.0, 0.0, 1e8, 2.5e8, 2e8]);
        rates.extend(vec![1e8; 30]);
        let released: f64 = 2.5e8 + 2e8;
        for from in [23, 24] {
            assert!(rates[from..].iter().sum::<f64>() > released);
            assert_eq!(skip_release_burst(&rates, from), if from == 23 { 26 } else { 24 });
        }
    }

    #[test]
    fn a_run_that_only_climbs_has_no_steady_part() {
        let rates: Vec<f64> = (0..12).map(|i| 2f64.powi(i) * 1e4).collect();
        assert_eq!(from_of(&rates), None);
        assert!(is_still_climbing(&RunArrivals::from_rates(&rates, 100_000)));
    }

    #[test]
    fn a_warm_up_in_the_plan_decides() {
        let arrivals = RunArrivals::from_rates(&ramped(60, 6), 100_000);
        assert_eq!(find_steady_span(&arrivals, Some(2_000_000)).unwrap().from_us, 2_000_000);
        assert_eq!(find_steady_span(&arrivals, Some(6_000_000)), None);
    }
}
