//! Where does the ramp end and the steady part begin?
//!
//! The marginal standard error rule (White 1997, MSER): cut the beginning where the mean of what
//! remains is known best, that is where (sum of squared deviations) / (number of values)² is least.
//! A running median of five first takes out single dips, which are no change of regime.
//!
//! Source: as named. Units: microseconds. Error: about one interval (`accuracy`).
//! Wrong when: the run swings slower than it lasts; then there is no steady part, and none is given.

use super::timeline::Arrivals;
use crate::stats::quantile::median;
use crate::stats::robust::running_median;
use longhaul_model::report::v1::analysis::Span;

/// Dips shorter than half of this many intervals are not changes of regime.
const DIP_WIDTH: usize = 5;
/// Steadiness cannot be seen in fewer intervals than this.
const LEAST_BINS: usize = 6;
/// The cut is not sought later than this share of the run (Law's rule for MSER).
const LATEST_CUT_RATIO: f64 = 0.6;
/// The steady part begins no lower than this share of its own median.
const FIRST_RATE_RATIO: f64 = 0.75;
/// What lies between these shares of the level, just before the cut, belongs to the level.
const LEVEL_RATIOS: std::ops::RangeInclusive<f64> = 0.88..=1.3;
/// A last third faster than the first by this factor is still climbing.
const CLIMB_RATIO: f64 = 1.25;

/// The steady part found from the data, or given by the plan; `None` when the run never settled.
pub fn steady(arrivals: &Arrivals, warm_up_us: Option<u64>) -> Option<Span> {
    let to_us = arrivals.to_us();
    if let Some(warm_up) = warm_up_us {
        let from_us = arrivals.from_us().saturating_add(warm_up);
        return (from_us < to_us).then_some(Span { from_us, to_us });
    }
    let rates = arrivals.rates_bps();
    let cut = cut(&running_median(&rates, DIP_WIDTH)).filter(|cut| !climbs(&rates[*cut..]))?;
    let cut = after_release(&rates, cut);
    Some(Span {
        from_us: arrivals.bins[cut].from_us,
        to_us,
    })
}

/// The rate still grew when the run ended.
pub fn still_climbing(arrivals: &Arrivals) -> bool {
    climbs(&arrivals.rates_bps())
}

fn cut(rates: &[f64]) -> Option<usize> {
    if rates.len() < LEAST_BINS {
        return None;
    }
    // Near the end the scatter is small by chance, so the cut is sought before it.
    let latest = (LATEST_CUT_RATIO * rates.len() as f64) as usize;
    let least = marginal_errors(rates)
        .into_iter()
        .enumerate()
        .take(latest + 1)
        .min_by(|a, b| a.1.total_cmp(&b.1))?
        .0;
    let level = median(rates[least..].iter().copied())?;
    let low = (least..rates.len()).find(|i| rates[*i] >= FIRST_RATE_RATIO * level)?;
    // The rule may cut into chance lows of the steady part; what belongs to the level comes back.
    let outside = |i: &usize| !LEVEL_RATIOS.contains(&(rates[*i] / level));
    let cut = (0..low).rev().find(outside).map_or(0, |i| i + 1);
    (cut <= latest && level > 0.0).then_some(cut)
}

/// While a hole in the sequence is mended nothing is delivered, and then all that waited behind it at
/// once. A steady part that began between the two would count bytes that took longer to come.
fn after_release(rates: &[f64], cut: usize) -> usize {
    let Some(level) = median(rates[cut..].iter().copied()) else {
        return cut;
    };
    let held_back = cut > 0 && rates[cut - 1] < FIRST_RATE_RATIO * level;
    let released = (cut..rates.len().min(cut + DIP_WIDTH))
        .rev()
        .find(|i| rates[*i] > LEVEL_RATIOS.end() * level);
    released
        .filter(|last| held_back && last + LEAST_BINS < rates.len())
        .map_or(cut, |last| last + 1)
}

/// The last third is well above the first. Means, because a window that arrives whole once in an RTT
/// makes rates of two or three windows an interval, between which a median jumps.
fn climbs(rates: &[f64]) -> bool {
    let third = rates.len().div_ceil(3);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    mean(&rates[rates.len() - third..]) > CLIMB_RATIO * mean(&rates[..third])
}

/// For each cut, the squared standard error of the mean of what remains, up to the last few values,
/// whose scatter is too small by chance.
fn marginal_errors(rates: &[f64]) -> Vec<f64> {
    let mut errors = vec![f64::INFINITY; rates.len()];
    let (mut mean, mut squares) = (0.0, 0.0);
    for (left, i) in (1u32..).zip((0..rates.len()).rev()) {
        let count = f64::from(left);
        let step = rates[i] - mean;
        mean += step / count;
        squares += step * (rates[i] - mean);
        if left as usize >= LEAST_BINS / 2 {
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
        climb
            .chain((ramp..total).map(|i| 1e8 + (i % 3) as f64 * 1e6))
            .collect()
    }

    fn from_of(rates: &[f64]) -> Option<u64> {
        steady(&Arrivals::from_rates(rates, 100_000), None).map(|s| s.from_us)
    }

    #[test]
    fn the_ramp_ends_where_the_rate_stops_doubling() {
        for ramp in [0, 3, 8, 13] {
            let from = from_of(&ramped(60, ramp)).unwrap() / 100_000;
            assert!(
                from.abs_diff(ramp as u64) <= 1,
                "ramp of {ramp} ended at {from}"
            );
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
            assert_eq!(
                after_release(&rates, from),
                if from == 23 { 26 } else { 24 }
            );
        }
    }

    #[test]
    fn a_run_that_only_climbs_has_no_steady_part() {
        let rates: Vec<f64> = (0..12).map(|i| 2f64.powi(i) * 1e4).collect();
        assert_eq!(from_of(&rates), None);
        assert!(still_climbing(&Arrivals::from_rates(&rates, 100_000)));
    }

    #[test]
    fn a_warm_up_in_the_plan_decides() {
        let arrivals = Arrivals::from_rates(&ramped(60, 6), 100_000);
        assert_eq!(
            steady(&arrivals, Some(2_000_000)).unwrap().from_us,
            2_000_000
        );
        assert_eq!(steady(&arrivals, Some(6_000_000)), None);
    }
}
