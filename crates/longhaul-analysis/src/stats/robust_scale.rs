//! Scale and level of values with outliers.
//!
//! Median absolute deviation, scaled by 1.4826 so that it equals the standard deviation of normal
//! values; running medians. Source: Hampel 1974; Tukey 1977. Units: those of the values.
//! Error: a third more scatter than the mean and the standard deviation have on normal values.
//! Wrong when: half of the values or more are outliers.

use super::quantile::median;

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

#[cfg(test)]
mod tests {
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
