//! Compares two programs, or two variants, by the ratio of their results in each turn.
//!
//! The speed of a machine drifts from minute to minute, and that of two programs in one turn drifts
//! together, so their ratio can be compared. Its median has the interval of the sign test, which
//! for six turns is the full range.

use longhaul_analysis::stats::sign_test::median_interval;
use longhaul_analysis::stats::{quantile, sort_finite};
use std::fmt;

/// The ratio of a quantity to the other program's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnRatio {
    ratio: f64,
    /// Contains the true median with a probability of at least 95 %.
    interval: [f64; 2],
}

impl TurnRatio {
    /// Creates it from its own and the other's reading in each turn; `None` below six turns.
    pub fn of(turns: &[(f64, f64)]) -> Option<TurnRatio> {
        let ratios = sort_finite(turns.iter().map(|(own, other)| own / other));
        Some(TurnRatio { interval: median_interval(&ratios)?, ratio: quantile(&ratios, 0.5)? })
    }

    /// Returns the median over the turns.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }
}

impl fmt::Display for TurnRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.interval;
        write!(f, "{:.2} ({low:.2} to {high:.2})", self.ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns turns whose speed varies by half, with longhaul `ratios` times the other.
    fn turns(ratios: &[f64]) -> Vec<(f64, f64)> {
        let speeds = (0..).map(|turn| 1.0 + 0.1 * f64::from(turn % 6));
        let turns = ratios.iter().zip(speeds);
        turns.map(|(ratio, speed)| (ratio * speed, speed)).collect()
    }

    #[test]
    fn the_interval_of_six_turns_is_their_range() {
        let six = TurnRatio::of(&turns(&[0.97, 0.9, 0.99, 0.98, 0.95, 0.97])).expect("six turns");
        assert_eq!(six.to_string(), "0.97 (0.90 to 0.99)");
    }

    #[test]
    fn five_turns_cannot_tell() {
        assert_eq!(TurnRatio::of(&turns(&[0.5; 5])), None);
    }
}
