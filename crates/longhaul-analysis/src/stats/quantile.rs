//! Quantiles of a sample.
//!
//! Linear interpolation between order statistics.
//! Source: type 7 of Hyndman and Fan, 1996. Units: those of the values. Error: rounding only.
//! Wrong when: never, but all quantiles of a single value are that value.

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

#[cfg(test)]
mod tests {
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
