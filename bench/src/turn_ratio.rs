//! Compares two programs, or two variants, by the ratio of their results in each turn.
//!
//! The speed of a machine drifts from minute to minute, and that of two programs in one turn drifts
//! together, so their ratio can be compared. Its median has the interval of the sign test, which
//! for six turns is the full range: a program is behind if it was behind in each of them, and of
//! two equal programs one is so in one of 64 cases.

use longhaul_analysis::stats::quantile::{quantile, sort_finite};
use longhaul_analysis::stats::sign_test::median_interval;
use std::fmt;

/// The better direction of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BetterDirection {
    More,
    Less,
}

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

    pub fn is_behind(&self, better: BetterDirection) -> bool {
        match better {
            BetterDirection::More => self.interval[1] < 1.0,
            BetterDirection::Less => self.interval[0] > 1.0,
        }
    }

    fn is_ahead(&self, better: BetterDirection) -> bool {
        match better {
            BetterDirection::More => self.interval[0] > 1.0,
            BetterDirection::Less => self.interval[1] < 1.0,
        }
    }

    /// Formats the ratio, with a word if one of the two is significantly better.
    pub fn text(this: Option<TurnRatio>, better: BetterDirection) -> String {
        match this {
            None => "–".to_owned(),
            Some(beside) if beside.is_behind(better) => format!("{beside} **behind**"),
            Some(beside) if beside.is_ahead(better) => format!("{beside} ahead"),
            Some(beside) => beside.to_string(),
        }
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
    fn behind_is_who_was_so_in_each_of_six_turns() {
        let in_each =
            TurnRatio::of(&turns(&[0.97, 0.9, 0.99, 0.98, 0.95, 0.97])).expect("six turns");
        assert!(
            in_each.is_behind(BetterDirection::More) && in_each.is_ahead(BetterDirection::Less)
        );
        assert_eq!(in_each.to_string(), "0.97 (0.90 to 0.99)");
        let in_five =
            TurnRatio::of(&turns(&[0.97, 0.9, 1.01, 0.98, 0.95, 0.97])).expect("six turns");
        assert!(
            !in_five.is_behind(BetterDirection::More) && !in_five.is_ahead(BetterDirection::Less)
        );
    }

    #[test]
    fn five_turns_cannot_tell() {
        let few = TurnRatio::of(&turns(&[0.5; 5]));
        assert_eq!(few, None);
        assert_eq!(TurnRatio::text(few, BetterDirection::More), "–");
    }

    #[test]
    fn the_better_way_decides_the_word() {
        let more = TurnRatio::of(&turns(&[1.2; 6]));
        assert_eq!(TurnRatio::text(more, BetterDirection::More), "1.20 (1.20 to 1.20) ahead");
        assert_eq!(TurnRatio::text(more, BetterDirection::Less), "1.20 (1.20 to 1.20) **behind**");
    }
}
