//! Ranks of values, with the mean rank for equal ones.
//!
//! Source: Mann and Whitney 1947. Units: ranks from 1. Error: none. Wrong when: never.

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
