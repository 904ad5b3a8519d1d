//! Confidence interval of the mean of a series with correlated neighbours.
//!
//! Rates of neighbouring intervals are correlated (a sawtooth lasts many of them), so n values are
//! worth fewer than n. The larger of two estimates of the error of the mean is used: from an
//! effective number of values by the first autocorrelation, corrected for its small-sample bias
//! (Marriott and Pope 1954), and from the scatter of batch means (Law and Kelton, Simulation
//! Modeling and Analysis, section 9.5), which covers slower variation.
//!
//! Source: as named. Units: those of the values. Error: covers the truth in 90 to 99 of 100 cases
//! for first-order noise of correlation up to 0.8 and 80 values (`accuracy`).
//! Wrong when: the series drifts, or varies more slowly than a quarter of its length.
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

/// Returns the half-width of the 95 % interval of the mean; `None` if there are too few values.
pub fn mean_half_width(values: &[f64]) -> Option<f64> {
    if values.len() < MIN_VALUES {
        return None;
    }
    let (_, deviation) = mean_and_deviation(values)?;
    let count = values.len() as f64;
    let lag_one = corrected_correlation(values).clamp(0.0, MAX_CORRELATION);
    let effective = (count * (1.0 - lag_one) / (1.0 + lag_one)).max(2.0);
    // The scatter around the sample's own mean is too small by the scatter of that mean.
    let deviation = deviation / (1.0 - 1.0 / effective).sqrt();
    let by_correlation = student_t_975(effective - 1.0) * deviation / effective.sqrt();
    Some(
        half_width_by_batches(values).map_or(by_correlation, |batches| batches.max(by_correlation)),
    )
}

fn half_width_by_batches(values: &[f64]) -> Option<f64> {
    let size = values.len() / BATCHES;
    if size < MIN_PER_BATCH {
        return None;
    }
    let means: Vec<f64> =
        values.chunks_exact(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect();
    let (_, deviation) = mean_and_deviation(&means)?;
    let count = means.len() as f64;
    Some(student_t_975(count - 1.0) * deviation / count.sqrt())
}

/// Returns the first autocorrelation without its small-sample bias, −(1 + 4ρ)/n; 0 for constants.
fn corrected_correlation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    if spread <= 0.0 {
        return 0.0;
    }
    let products: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let raw = products / spread;
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
