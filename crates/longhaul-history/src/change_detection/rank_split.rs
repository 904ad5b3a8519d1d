//! The rank-sum statistic of two neighbouring ranges.
//!
//! The rank sum of Mann and Whitney, standardised and corrected for ties, without continuity
//! correction. Source: Mann and Whitney 1947. Units: standard deviations. Error: none but rounding.
//! Wrong when: neighbours are correlated: the merge corrects for that.

use longhaul_analysis::stats::mid_ranks::MidRanks;

/// Returns the split of the values with the largest |z|, with `margin` values or more on each side.
pub(super) fn find_best_split(values: &[f64], margin: usize) -> Option<(usize, f64)> {
    if values.len() < 2 * margin {
        return None;
    }
    let ranks = MidRanks::of(values);
    let mut below: usize = ranks.doubled[..margin - 1].iter().sum();
    let mut best = (0, 0.0);
    for left in margin..=values.len() - margin {
        below += ranks.doubled[left - 1];
        let z = standardize_rank_sum(below, left, &ranks);
        if z > best.1 {
            best = (left, z);
        }
    }
    (best.1 > 0.0).then_some(best)
}

/// Returns the |z| of the split of the values at `at`.
pub(super) fn compute_split_z(values: &[f64], at: usize) -> f64 {
    let ranks = MidRanks::of(values);
    standardize_rank_sum(ranks.doubled[..at].iter().sum(), at, &ranks)
}

/// Standardises twice the rank sum of the left side.
fn standardize_rank_sum(doubled: usize, left: usize, ranks: &MidRanks) -> f64 {
    let over = doubled as f64 / 2.0 - left as f64 * (ranks.doubled.len() as f64 + 1.0) / 2.0;
    let variance = ranks.rank_sum_variance(left);
    if variance > 1e-9 { over.abs() / variance.sqrt() } else { 0.0 }
}

/// Returns the maximum |z| of such a split without ties: all of one side above the other.
pub(super) fn compute_max_z(left: usize, right: usize) -> f64 {
    let (k, m) = (left as f64, right as f64);
    (3.0 * k * m / (k + m + 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_step_has_the_largest_z_there_is() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 10 + i / 10 * 100)).collect();
        let (at, z) = find_best_split(&values, 3).unwrap();
        assert_eq!(at, 10);
        assert!((z - compute_max_z(10, 10)).abs() < 1e-9, "{z}");
        assert!((compute_split_z(&values, 10) - z).abs() < 1e-9);
    }

    #[test]
    fn ties_are_counted_as_in_a_worked_case() {
        // Ranks 2 2 2 | 5 5 5 with 1.5-fold ties each: U = 0 of 9, variance 9/12 (7 - 48/30).
        let expected = 4.5 / (9.0 / 12.0 * (7.0 - 48.0 / 30.0_f64)).sqrt();
        let z = compute_split_z(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], 3);
        assert!((z - expected).abs() < 1e-9);
    }

    #[test]
    fn constants_and_short_ranges_have_no_split() {
        assert_eq!(find_best_split(&[4.0; 30], 3), None);
        assert_eq!(find_best_split(&[1.0, 2.0, 3.0, 4.0, 5.0], 3), None);
    }
}
