//! Confidence interval of the mean of a series with correlated neighbours.
//!
//! Rates of neighbouring intervals are correlated (a sawtooth lasts many of them), so n values are
//! worth fewer than n. The larger of two estimates of the error of the mean is used: from an
//! effective number of values by the first autocorrelation, corrected for its small-sample bias
//! (Marriott and Pope 1954), and from the scatter of batch means (Law and Kelton, Simulation
//! Modeling and Analysis, section 9.5), which covers slower variation.
//!
//! Neighbours may also compensate each other: what a hole of lost segments holds back is counted in the
//! next interval, so that the mean is known better than n independent values tell. If the first
//! autocorrelation is negative by more than its standard error, the long-run variance by Bartlett's
//! kernel over a quarter of the values is used where it is smaller, with the critical value for that
//! share (Kiefer and Vogelsang, Econometric Theory 21, 2005).
//!
//! No interval reaches farther than the value that is farthest from the mean: with few effective values, as
//! in a sawtooth that was seen for one or two of its cycles, Student's factor gives many times that.
//!
//! Source: as named. Units: those of the values. Error: covers the truth in 90 to 99 of 100 cases
//! for first-order noise of correlation up to 0.8 and 80 values (`accuracy`), in 96 to 100 of 100 for
//! independent values and for differences of noisy counts.
//! Wrong when: the series drifts, or varies more slowly than a quarter of its length; slow variation
//! beneath noise that compensates itself (covered in 87 of 100 cases).
//!
//! # Intervals of proportions
//!
//! Confidence interval of a proportion.
//!
//! The score interval. Source: Wilson 1927. Units: ratios.
//! Error: covers the truth in 92 to 98 of 100 cases.
//! Wrong when: the cases are clustered, as losses are: then it is too narrow.

use super::mean_and_deviation;

/// The minimum number of values to estimate their scatter.
pub const MIN_VALUES: usize = 5;
/// Batches for the second estimate: few, so that each is long compared with the correlation.
const BATCHES: usize = 8;
/// The minimum number of values per batch.
const MIN_PER_BATCH: usize = 3;
/// The maximum correlation assumed: above it the series is a drift.
const MAX_CORRELATION: f64 = 0.95;
/// The maximum number of values for the kernel, whose cost grows with the square: more are averaged in
/// batches before.
const MAX_KERNEL_VALUES: usize = 256;
/// The share of the values over which the kernel extends.
const KERNEL_RATIO: f64 = 0.25;
/// The coefficients of the critical value at 97.5 % by powers of that share.
const KERNEL_CRITICAL: [f64; 4] = [1.96, 2.9694, 0.4160, -0.5324];

/// Returns the half-width of the 95 % interval of the mean; `None` if there are too few values.
pub fn mean_half_width(values: &[f64]) -> Option<f64> {
    if values.len() < MIN_VALUES {
        return None;
    }
    let (mean, deviation) = mean_and_deviation(values)?;
    let count = values.len() as f64;
    let correlation = corrected_correlation(values);
    let lag_one = correlation.clamp(0.0, MAX_CORRELATION);
    let effective = (count * (1.0 - lag_one) / (1.0 + lag_one)).max(2.0);
    // The scatter around the sample's own mean is too small by the scatter of that mean.
    let deviation = deviation / (1.0 - 1.0 / effective).sqrt();
    let by_correlation = student_t_975(effective - 1.0) * deviation / effective.sqrt();
    let widest = half_width_by_batches(values).map_or(by_correlation, |it| it.max(by_correlation));
    let farthest = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
    let widest = widest.min(farthest);
    let compensates = correlation < -1.0 / count.sqrt();
    Some(if compensates { widest.min(half_width_by_kernel(values)) } else { widest })
}

/// Returns the half-width by the long-run variance.
fn half_width_by_kernel(values: &[f64]) -> f64 {
    let values = average_batches(values, values.len().div_ceil(MAX_KERNEL_VALUES));
    let count = values.len() as f64;
    let bandwidth = (KERNEL_RATIO * count).ceil().max(2.0);
    let weighted = (1..bandwidth as usize)
        .map(|lag| 2.0 * (1.0 - lag as f64 / bandwidth) * autocovariance(&values, lag))
        .sum::<f64>();
    let variance = (autocovariance(&values, 0) + weighted).max(0.0);
    let share = bandwidth / count;
    let critical = KERNEL_CRITICAL.iter().rev().fold(0.0, |sum, next| sum * share + next);
    critical * (variance / count).sqrt()
}

/// Returns the means of batches of `size` values; a last one that is smaller is left out.
fn average_batches(values: &[f64], size: usize) -> Vec<f64> {
    values.chunks_exact(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect()
}

/// Returns the mean product of the deviations of values that are `lag` apart, as a share of all values.
fn autocovariance(values: &[f64], lag: usize) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let products = values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean));
    products.sum::<f64>() / count
}

fn half_width_by_batches(values: &[f64]) -> Option<f64> {
    let size = values.len() / BATCHES;
    if size < MIN_PER_BATCH {
        return None;
    }
    let means = average_batches(values, size);
    let (_, deviation) = mean_and_deviation(&means)?;
    let count = means.len() as f64;
    Some(student_t_975(count - 1.0) * deviation / count.sqrt())
}

/// Returns the first autocorrelation without its small-sample bias, −(1 + 4ρ)/n; 0 for constants.
fn corrected_correlation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let spread = autocovariance(values, 0);
    if spread <= 0.0 {
        return 0.0;
    }
    let raw = autocovariance(values, 1) / spread;
    // The bias depends on the true value, so the equation is solved for it.
    (raw + 1.0 / count) / (1.0 - 4.0 / count).max(0.2)
}

/// Returns the 97.5 % quantile of Student's t with `freedom` degrees of freedom (at least 1).
///
/// Exact at 1 to 5, interpolated between; above, the series of Abramowitz and Stegun 26.7.5, right
/// to 0.1 %.
pub fn student_t_975(freedom: f64) -> f64 {
    const SMALL: [f64; 5] = [12.706, 4.303, 3.182, 2.776, 2.571];
    const NORMAL: f64 = 1.959_964;
    if freedom < SMALL.len() as f64 {
        let place = (freedom - 1.0).max(0.0);
        let below = place.floor() as usize;
        let above = (below + 1).min(SMALL.len() - 1);
        let part = place - below as f64;
        return SMALL[below] * (1.0 - part) + SMALL[above] * part;
    }
    let z = NORMAL;
    let first = (z.powi(3) + z) / (4.0 * freedom);
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2));
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z)
        / (384.0 * freedom.powi(3));
    z + first + second + third
}

/// Standard deviations of a 95 % interval.
const Z: f64 = 1.959_964;

/// Returns the 95 % interval of the proportion; 0 to 1 without any tries.
pub fn proportion_interval(cases: u64, tries: u64) -> [f64; 2] {
    if tries == 0 {
        return [0.0, 1.0];
    }
    let (n, share) = (tries as f64, cases.min(tries) as f64 / tries as f64);
    let scale = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    // The formula gives exactly these ends, but rounding does not.
    let low = if cases == 0 { 0.0 } else { centre - half };
    let high = if cases >= tries { 1.0 } else { centre + half };
    [low.clamp(0.0, 1.0), high.clamp(0.0, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::splitmix::SplitMix64;

    #[test]
    fn t_quantiles_agree_with_the_printed_table() {
        let table = [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (7.0, 2.365),
            (10.0, 2.228),
            (30.0, 2.042),
            (1e9, 1.960),
        ];
        for (freedom, expected) in table {
            let got = student_t_975(freedom);
            assert!((got / expected - 1.0).abs() < 0.002, "{freedom}: {got} not {expected}");
        }
    }

    #[test]
    fn resembling_neighbours_widen_the_interval() {
        let loose: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
        let clumped: Vec<f64> = (0..40).map(|i| f64::from(i / 10 % 2)).collect();
        let narrow = mean_half_width(&loose).unwrap();
        let wide = mean_half_width(&clumped).unwrap();
        assert!(wide > 3.0 * narrow, "{wide} is not well above {narrow}");
    }

    /// Returns the share of intervals that hold the mean of 0, and their mean half-width.
    fn cover(draw: impl Fn(&mut SplitMix64) -> Vec<f64>) -> (f64, f64) {
        let mut random = SplitMix64::new(5);
        let (mut held, mut width) = (0, 0.0);
        for _ in 0..1000 {
            let values = draw(&mut random);
            let half = mean_half_width(&values).expect("an interval");
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            held += u32::from(mean.abs() <= half);
            width += half / 1000.0;
        }
        (f64::from(held) / 1000.0, width)
    }

    #[test]
    fn differences_of_noisy_counts_are_known_better_than_independent_values() {
        for count in [10, 20, 40, 600] {
            let noise = |random: &mut SplitMix64, count: usize| {
                (0..count).map(|_| random.normal()).collect::<Vec<f64>>()
            };
            let (independent, wide) = cover(|random| noise(random, count));
            let (differences, narrow) = cover(|random| {
                let at = noise(random, count + 1);
                at.windows(2).map(|it| (it[1] - it[0]) / 2.0_f64.sqrt()).collect()
            });
            assert!(independent > 0.95, "{count}: {independent}");
            assert!(differences > 0.98, "{count}: {differences}");
            // Their error is 1 / n of their scatter, and not 1 / sqrt(n).
            assert!(narrow < wide * 1.3 / (count as f64).powf(0.2), "{count}: {narrow}, {wide}");
        }
    }

    #[test]
    fn the_interval_of_a_sawtooth_stays_within_its_values() {
        let saw: Vec<f64> = (0..30).map(|i| 70.0 + f64::from(i % 20)).collect();
        let (mean, _) = mean_and_deviation(&saw).unwrap();
        let half = mean_half_width(&saw).unwrap();
        assert!((2.0..=89.0 - mean).contains(&half), "{half}");
    }

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!(mean_half_width(&[1.0, 2.0, 3.0, 4.0]), None);
    }
}

#[cfg(test)]
mod proportion_tests {
    use super::*;

    #[test]
    fn known_intervals_are_met() {
        for (cases, tries, want) in [
            (0, 10, [0.0, 0.2775]),
            (1, 10, [0.0179, 0.4042]),
            (10, 10, [0.7225, 1.0]),
            (5, 100, [0.0215, 0.1118]),
            (0, 0, [0.0, 1.0]),
        ] {
            let found = proportion_interval(cases, tries);
            for (a, b) in found.iter().zip(want) {
                assert!((a - b).abs() < 5e-5, "{cases} of {tries}: {found:?}");
            }
        }
    }
}
