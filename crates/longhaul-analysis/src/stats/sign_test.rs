//! Confidence interval of a median, and the sign test against zero.
//!
//! The interval is bounded by two of the values and belongs to the sign test: the number of values
//! below the true median is binomial with p = ½, whatever their distribution.
//!
//! Source: Arbuthnot 1710 in the form of Hollander and Wolfe, sections 3.4 and 3.6. Units: those of
//! the values; a probability. Error: the interval holds the truth in 95 of 100 cases or more
//! (`accuracy`).
//! Wrong when: neighbouring values are correlated: they count as independent.
//!
//! # The rank-sum test
//!
//! One-sided rank-sum test: are the values of one sample greater than those of another?
//!
//! The rank sum of Mann and Whitney, by its normal approximation with the corrections for ties and
//! continuity.
//! Source: Mann and Whitney 1947. Units: a probability.
//! Error: from three values against eight on, up to 0.005 too large near 0.01.
//! Wrong when: neighbouring values are correlated: they count as independent.

use super::MidRanks;
use super::student_distribution::upper_tail;

/// The error probability of the interval.
const LEVEL: f64 = 0.05;

/// Returns the 95 % interval of the median of ascending values; `None` below six of them.
pub fn median_interval(ascending: &[f64]) -> Option<[f64; 2]> {
    let count = ascending.len();
    let below = cumulative_binomial(count, 0.5);
    let cut = below.into_iter().take_while(|p| *p <= LEVEL / 2.0).count();
    let low = cut.checked_sub(1)?;
    Some([ascending[low], ascending[count - cut]])
}

/// Returns the probability that values of median 0 would be as one-sided as these; zeros are left
/// out. `None` if they are too few for any result to be significant.
pub fn sign_test_probability(values: &[f64]) -> Option<f64> {
    let above = values.iter().filter(|v| **v > 0.0).count();
    let below = values.iter().filter(|v| **v < 0.0).count();
    if values.len() < 6 {
        return None;
    }
    let tail = cumulative_binomial(above + below, 0.5)[above.min(below)];
    Some((2.0 * tail).min(1.0))
}

/// Returns P(at most k of `count` values lie below the `share` quantile), for k from 0.
pub fn cumulative_binomial(count: usize, share: f64) -> Vec<f64> {
    let odds = (share / (1.0 - share)).ln();
    let mut logarithm = count as f64 * (1.0 - share).ln();
    let mut sum = logarithm.exp();
    let mut below = vec![sum];
    for k in 1..=count {
        logarithm += ((count - k + 1) as f64 / k as f64).ln() + odds;
        sum += logarithm.exp();
        below.push(sum.min(1.0));
    }
    below
}

/// Returns the probability that `higher` exceeds `lower` as much if both are from the same
/// population; 1 if either is empty.
pub fn rank_sum_probability(lower: &[f64], higher: &[f64]) -> f64 {
    let ranks = MidRanks::of(&[lower, higher].concat());
    let variance = ranks.rank_sum_variance(lower.len());
    if variance <= 0.0 {
        return 1.0;
    }
    let (m, all) = (higher.len() as f64, ranks.doubled.len() as f64);
    let sum = ranks.doubled[lower.len()..].iter().sum::<usize>() as f64 / 2.0;
    upper_tail((sum - m * (all + 1.0) / 2.0 - 0.5) / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_table_of_the_sign_test_is_met() {
        let values = |above: u32, below: u32| -> Vec<f64> {
            let up = (0..above).map(|i| f64::from(i) + 1.0);
            up.chain((0..below).map(|i| -1.0 - f64::from(i))).collect()
        };
        for (above, below, expected) in [(6, 0, 0.03125), (9, 1, 0.021_484), (5, 5, 1.0)] {
            let got = sign_test_probability(&values(above, below)).unwrap();
            assert!((got - expected).abs() < 1e-5, "{above} {below}: {got}");
        }
        assert_eq!(sign_test_probability(&values(5, 0)), None);
    }

    #[test]
    fn intervals_are_of_the_printed_ranks() {
        let ascending: Vec<f64> = (1..=20).map(f64::from).collect();
        // The 6th and the 15th of 20 values.
        assert_eq!(median_interval(&ascending), Some([6.0, 15.0]));
        assert_eq!(median_interval(&ascending[..6]), Some([1.0, 6.0]));
        assert_eq!(median_interval(&ascending[..5]), None);
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        let [low, high] = median_interval(&many).unwrap();
        assert!((465.0..471.0).contains(&low) && (529.0..535.0).contains(&high), "{low} {high}");
    }
}

#[cfg(test)]
mod rank_sum_tests {
    use super::*;

    #[test]
    fn samples_apart_are_told_apart_and_samples_alike_are_not() {
        let idle: Vec<f64> = (0..14).map(|i| 10.0 + f64::from(i) * 0.01).collect();
        let risen: Vec<f64> = (0..6).map(|i| 40.0 + f64::from(i)).collect();
        assert!(rank_sum_probability(&idle, &risen) < 0.001);
        assert!(rank_sum_probability(&risen, &idle) > 0.999);
        assert!(rank_sum_probability(&idle, &idle) > 0.4);
        assert!(rank_sum_probability(&[1.0; 9], &[1.0; 9]) > 0.4, "all alike");
        assert!((rank_sum_probability(&[], &risen) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_known_table_is_met() {
        // U = 1 for three against eight: 2 of the 165 orders are as extreme.
        let lower: Vec<f64> = (1..=8).map(f64::from).collect();
        let p = rank_sum_probability(&lower, &[9.0, 10.0, 7.5]);
        assert!((0.0..0.005).contains(&(p - 2.0 / 165.0)), "{p}");
    }
}
