//! The rank-sum statistic of two neighbouring ranges.
//!
//! The rank sum of Mann and Whitney, standardised and corrected for ties, without continuity
//! correction. Source: Mann and Whitney 1947. Units: standard deviations. Error: none but rounding.
//! Wrong when: neighbours are correlated: the merge corrects for that.

use std::ops::Range;

/// Dense ranks of a series (equal values share one), and scratch buffers.
pub(super) struct DenseRanks {
    dense: Vec<u32>,
    keys: Vec<u64>,
    doubled: Vec<u64>,
}

impl DenseRanks {
    pub fn new(values: &[f64]) -> DenseRanks {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        let mut dense = vec![0; values.len()];
        for pair in order.windows(2) {
            let steps_up = values[pair[1]].total_cmp(&values[pair[0]]).is_gt();
            dense[pair[1]] = dense[pair[0]] + u32::from(steps_up);
        }
        DenseRanks { dense, keys: Vec::new(), doubled: Vec::new() }
    }

    /// Returns the split of the range with the largest |z|, with `margin` values or more on each
    /// side.
    pub fn best_split(&mut self, range: Range<usize>, margin: usize) -> Option<(usize, f64)> {
        let all = range.len();
        if all < 2 * margin {
            return None;
        }
        let ties = self.rank_within(range.clone());
        let mut below: u64 = self.doubled[..margin - 1].iter().sum();
        let mut best = (0, 0.0_f64);
        for left in margin..=all - margin {
            below += self.doubled[left - 1];
            let z = standardize_rank_sum(below, left, all, ties).abs();
            if z > best.1 {
                best = (range.start + left, z);
            }
        }
        (best.1 > 0.0).then_some(best)
    }

    /// Returns the z of the split of the range at `at`: positive if the right side is higher.
    pub fn z(&mut self, range: Range<usize>, at: usize) -> f64 {
        let (all, left) = (range.len(), at - range.start);
        let ties = self.rank_within(range);
        let below: u64 = self.doubled[..left].iter().sum();
        -standardize_rank_sum(below, left, all, ties)
    }

    /// Computes twice the mid-rank of each value within the range; returns the tie term Σ(t³ − t).
    fn rank_within(&mut self, range: Range<usize>) -> f64 {
        let dense = &self.dense[range.clone()];
        self.keys.clear();
        let keyed = dense.iter().zip(0u64..);
        self.keys.extend(keyed.map(|(rank, i)| u64::from(*rank) << 32 | i));
        self.keys.sort_unstable();
        self.doubled.clear();
        self.doubled.resize(range.len(), 0);
        let (mut ties, mut done) = (0.0, 0u64);
        for equal in self.keys.chunk_by(|a, b| a >> 32 == b >> 32) {
            let count = equal.len() as u64;
            for key in equal {
                self.doubled[(key & 0xffff_ffff) as usize] = 2 * done + count + 1;
            }
            done += count;
            let count = count as f64;
            ties += count * (count * count - 1.0);
        }
        ties
    }
}

/// Standardises twice the rank sum of the left side.
fn standardize_rank_sum(doubled: u64, left: usize, all: usize, ties: f64) -> f64 {
    let (k, n) = (left as f64, all as f64);
    let over = doubled as f64 / 2.0 - k * (n + 1.0) / 2.0;
    let variance = k * (n - k) / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)).max(1.0));
    if variance > 1e-9 { over / variance.sqrt() } else { 0.0 }
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
        let mut ranks = DenseRanks::new(&values);
        let (at, z) = ranks.best_split(0..20, 3).unwrap();
        assert_eq!(at, 10);
        assert!((z - compute_max_z(10, 10)).abs() < 1e-9, "{z}");
        assert!((ranks.z(0..20, 10) - z).abs() < 1e-9, "the right side is higher");
    }

    #[test]
    fn ties_are_counted_as_in_a_worked_case() {
        // Ranks 2 2 2 | 5 5 5 with 1.5-fold ties each: U = 0 of 9, variance 9/12 (7 - 48/30).
        let mut ranks = DenseRanks::new(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        let expected = 4.5 / (9.0 / 12.0 * (7.0 - 48.0 / 30.0_f64)).sqrt();
        assert!((ranks.z(0..6, 3) - expected).abs() < 1e-9);
    }

    #[test]
    fn constants_and_short_ranges_have_no_split() {
        assert_eq!(DenseRanks::new(&[4.0; 30]).best_split(0..30, 3), None);
        assert_eq!(DenseRanks::new(&[1.0, 2.0, 3.0, 4.0, 5.0]).best_split(0..5, 3), None);
    }
}
