//! Statistics of finished series: quantiles, robust scales, confidence intervals, tests.
//!
//! # Sample mode
//!
//! The mode of a sample: its most frequent value.
//!
//! Source: none. Units: those of the values. Error: none. Wrong when: several values are as frequent;
//! then the latest counts.
//!
//! # Quantile
//!
//! Quantiles of a sample.
//!
//! Linear interpolation between order statistics.
//! Source: type 7 of Hyndman and Fan, 1996. Units: those of the values. Error: rounding only.
//! Wrong when: never, but all quantiles of a single value are that value.
//!
//! # Robust scale
//!
//! Scale and level of values with outliers.
//!
//! Median absolute deviation, scaled by 1.4826 so that it equals the standard deviation of normal
//! values; running medians. Source: Hampel 1974; Tukey 1977. Units: those of the values.
//! Error: a third more scatter than the mean and the standard deviation have on normal values.
//! Wrong when: half of the values or more are outliers.
//!
//! # Median slope
//!
//! Slope of a line through points, of which some are outliers: the median of the slopes between any two.
//!
//! Source: Theil 1950; Sen 1968. Units: those of the ordinate per abscissa. Error: about that of least
//! squares on normal errors. Wrong when: three tenths of the points are outliers.
//!
//! # Mid ranks
//!
//! Ranks of values, with the mean rank for equal ones.
//!
//! Source: Mann and Whitney 1947. Units: ranks from 1. Error: none. Wrong when: never.

pub mod hypergeometric_tail;
pub mod mean_interval;
pub mod sample_change;
pub mod sample_mean_tail;
pub mod sign_test;
pub mod student_distribution;

/// Returns the median slope between any two points whose abscissas differ; `None` without such points.
/// The time is quadratic in the number of points.
pub fn compute_median_slope(points: &[(f64, f64)]) -> Option<f64> {
    let pairs = points.iter().enumerate().flat_map(|(i, a)| {
        let others = points[..i].iter().filter(move |b| b.0.total_cmp(&a.0).is_ne());
        others.map(move |b| (b.1 - a.1) / (b.0 - a.0))
    });
    median(pairs)
}

/// Returns the most frequent of these values, which are in the order of time; of equals, the latest.
pub fn find_mode<T: Copy + PartialEq>(values: &[T]) -> Option<T> {
    let times = |of: &T| values.iter().filter(|value| *value == of).count();
    values.iter().copied().max_by_key(times)
}

/// Returns the finite values, ascending.
pub fn sort_finite(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut kept: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    kept.sort_by(f64::total_cmp);
    kept
}

/// Returns the `share` quantile (0 to 1) of ascending values; `None` if there are none.
pub fn quantile(ascending: &[f64], share: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let part = place - below as f64;
    Some(ascending[below] * (1.0 - part) + ascending[above] * part)
}

/// Returns the median of the finite values; `None` if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    quantile(&sort_finite(values), 0.5)
}

/// Converts the median absolute deviation of normal values to their standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Returns a robust standard deviation; `None` if there are no values.
pub fn mad_scale(values: &[f64]) -> Option<f64> {
    let centre = median(values.iter().copied())?;
    median(values.iter().map(|v| (v - centre).abs())).map(|mad| mad * MAD_TO_SIGMA)
}

/// Replaces each value by the median of the `width` values around it (fewer at the ends): a dip
/// shorter than half the width disappears, a lasting step stays in place.
pub fn running_median(values: &[f64], width: usize) -> Vec<f64> {
    let half = width / 2;
    (0..values.len())
        .map(|i| {
            // A symmetric window, so that a rising series is not distorted at its ends.
            let reach = half.min(i).min(values.len() - 1 - i);
            median(values[i - reach..=i + reach].iter().copied()).unwrap_or(values[i])
        })
        .collect()
}

/// Returns mean and standard deviation (divisor n − 1); `None` for fewer than two values.
pub fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0)).sqrt()))
}

/// The ranks of values among themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct MidRanks {
    /// Twice the rank of each value, so that the mean of two neighbouring ranks is whole.
    pub doubled: Vec<usize>,
    /// The sum of t³ − t over the groups of t equal values.
    pub ties: f64,
}

impl MidRanks {
    pub fn of(values: &[f64]) -> MidRanks {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
        let mut doubled = vec![0; values.len()];
        let (mut begin, mut ties) = (0, 0.0);
        for group in order.chunk_by(|a, b| values[*a].total_cmp(&values[*b]).is_eq()) {
            let size = group.len();
            // The sum of the first and last rank of the group, from 1, is twice its mid-rank.
            for place in group {
                doubled[*place] = 2 * begin + size + 1;
            }
            begin += size;
            let t = size as f64;
            ties += t * t * t - t;
        }
        MidRanks { doubled, ties }
    }

    /// Returns the variance of the rank sum of the first `left` values, if order is chance.
    pub fn rank_sum_variance(&self, left: usize) -> f64 {
        let (k, n) = (left as f64, self.doubled.len() as f64);
        k * (n - k) / 12.0 * (n + 1.0 - self.ties / (n * (n - 1.0)).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_equals_counts() {
        assert_eq!(find_mode(&[1, 2, 2, 1, 3]), Some(1));
        assert_eq!(find_mode::<u8>(&[]), None);
    }

    #[test]
    fn a_wild_point_does_not_move_the_median_slope() {
        let mut points: Vec<(f64, f64)> =
            (0..9).map(|x| (f64::from(x), f64::from(3 * x))).collect();
        points[4].1 = 1e6;
        assert_eq!(compute_median_slope(&points), Some(3.0));
        assert_eq!(compute_median_slope(&[(1.0, 2.0), (1.0, 5.0)]), None);
    }
}

#[cfg(test)]
mod quantile_tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        let cases: [(&[f64], f64, Option<f64>); 6] = [
            (&[], 0.5, None),
            (&[7.0], 0.9, Some(7.0)),
            (&[1.0, 2.0], 0.5, Some(1.5)),
            (&[1.0, 2.0, 3.0], 0.5, Some(2.0)),
            (&[0.0, 10.0], 0.9, Some(9.0)),
            (&[1.0, 2.0], 7.0, Some(2.0)),
        ];
        for (values, share, expected) in cases {
            assert_eq!(quantile(values, share), expected, "{values:?} at {share}");
        }
    }

    #[test]
    fn values_that_are_no_numbers_are_left_out() {
        assert_eq!(median([f64::NAN, 3.0, f64::INFINITY, 1.0]), Some(2.0));
    }
}

#[cfg(test)]
mod robust_scale_tests {
    use super::*;

    #[test]
    fn one_wild_value_does_not_move_the_scale() {
        let calm = mad_scale(&[9.0, 10.0, 11.0, 10.0, 9.0, 11.0, 10.0]).unwrap();
        let wild = mad_scale(&[9.0, 10.0, 11.0, 10.0, 9.0, 11.0, 1e9]).unwrap();
        assert!((calm - wild).abs() < 0.5, "{calm} and {wild}");
    }

    #[test]
    fn a_running_median_takes_out_a_dip_and_keeps_a_step() {
        let dip = [5.0, 5.0, 0.0, 5.0, 5.0, 5.0];
        assert_eq!(running_median(&dip, 5), [5.0; 6]);
        let step = [1.0, 1.0, 1.0, 5.0, 5.0, 5.0];
        assert_eq!(running_median(&step, 5), step);
    }
}
