//! Scores candidate causes and selects those that are named.
//!
//! Each candidate has the score s = w · timing · consistency: the weight of its kind, how near it
//! is in time, and whether it fits the observations (1 fits, 0.5 unknown, 0 contradicts). The best
//! is named if its score is at least 0.5, together with all others within 0.2 of it.
//!
//! Source: longhaul's own; weights are in docs/methods/causes.md. Units: none, 0 to 1.
//! Error: a score is not a probability; it ranks the causes, with a threshold of 0.5.
//! Wrong when: the true cause left no trace in the evidence.

use super::state_change;
use longhaul_model::report::v1::{FindingAdvice, ReportFinding};

/// Weights by kind of cause.
pub mod weight {
    pub const TEST_PARAMETER: f64 = 1.0;
    pub const HOST: f64 = 0.9;
    pub const ROUTE: f64 = 0.8;
    /// Capacity, shaper, policer, path MTU.
    pub const LINK: f64 = 0.8;
    pub const RETUNE: f64 = 0.8;
    pub const RECOVERY: f64 = 0.8;
    pub const CROSS_TRAFFIC: f64 = 0.7;
    pub const NOTE: f64 = 0.7;
    pub const SHARED: f64 = 0.6;
    pub const RTT: f64 = 0.5;
}

/// The minimum score of the best candidate.
pub const MIN_BEST_SCORE: f64 = 0.5;
/// Other candidates are named if their score is within this distance of the best.
pub const MAX_SCORE_DISTANCE: f64 = 0.2;
/// The maximum confidence: no cause is ever certain.
const MAX_CONFIDENCE: f64 = 0.95;
/// Tolerance for rounding: sums of tenths are not exact.
const ROUNDING: f64 = 1e-9;

/// A possible cause of the event.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseCandidate {
    /// The stable name of the cause.
    pub cause: &'static str,
    /// The earliest and latest time at which it happened.
    pub between_us: [i64; 2],
    pub weight: f64,
    /// 0 to 1.
    pub consistency: f64,
    /// One sentence that contains the numbers.
    pub summary: String,
    pub supports: Vec<String>,
    pub contradicts: Vec<String>,
    pub advice: Vec<FindingAdvice>,
}

impl CauseCandidate {
    /// Creates a candidate whose weight and consistency are 0 until set.
    pub fn new(
        cause: &'static str,
        weight: f64,
        between_us: [i64; 2],
        summary: String,
    ) -> CauseCandidate {
        CauseCandidate {
            cause,
            between_us,
            weight,
            consistency: 0.0,
            summary,
            supports: Vec::new(),
            contradicts: Vec::new(),
            advice: Vec::new(),
        }
    }

    /// Adds evidence for the cause.
    pub fn support(&mut self, text: impl Into<String>) {
        self.supports.push(text.into());
    }

    /// Adds evidence against the cause.
    pub fn contradict(&mut self, text: impl Into<String>) {
        self.contradicts.push(text.into());
    }

    /// Adds advice without a command.
    pub fn advise(&mut self, place: &str, text: impl Into<String>) {
        self.advice.push(FindingAdvice::new(place, text));
    }

    pub fn score(&self, event_us: [i64; 2], tau_us: f64) -> f64 {
        self.weight
            * state_change::rate_timing(self.between_us, event_us, tau_us)
            * self.consistency
    }

    fn into_finding(self, score: f64) -> ReportFinding {
        ReportFinding {
            cause: self.cause.to_owned(),
            summary: self.summary,
            confidence_ratio: score.clamp(0.0, MAX_CONFIDENCE),
            supports: self.supports,
            contradicts: self.contradicts,
            advice: self.advice,
        }
    }
}

/// Selects the named candidates, the most likely first; ties keep the given order.
pub fn select_named_causes(
    candidates: Vec<CauseCandidate>,
    event_us: [i64; 2],
    tau_us: f64,
) -> Vec<ReportFinding> {
    let scored =
        candidates.into_iter().map(|candidate| (candidate.score(event_us, tau_us), candidate));
    let mut scored: Vec<(f64, CauseCandidate)> = scored.collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    let least = MIN_BEST_SCORE.max(best - MAX_SCORE_DISTANCE) - ROUNDING;
    scored
        .into_iter()
        .filter(|(score, _)| *score >= least)
        .map(|(score, candidate)| candidate.into_finding(score))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(cause: &'static str, weight: f64, consistency: f64) -> CauseCandidate {
        CauseCandidate { consistency, ..CauseCandidate::new(cause, weight, [0, 10], String::new()) }
    }

    fn causes(candidates: Vec<CauseCandidate>) -> Vec<String> {
        let found = select_named_causes(candidates, [0, 10], 1e9);
        found.into_iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn the_best_is_named_and_what_is_near_it() {
        let all = vec![
            candidate("far", 0.55, 1.0),
            candidate("near", 0.6, 1.0),
            candidate("best", 0.8, 1.0),
        ];
        assert_eq!(causes(all), ["best", "near"]);
    }

    #[test]
    fn nothing_below_a_half_is_named() {
        assert!(causes(vec![candidate("weak", 0.9, 0.5)]).is_empty());
        assert_eq!(causes(vec![candidate("just", 1.0, 0.5)]), ["just"]);
    }

    #[test]
    fn what_contradicts_scores_nothing() {
        let against = candidate("against", 1.0, 0.0);
        assert!(against.score([0, 10], 1e9).abs() < 1e-12);
        assert!(causes(vec![against]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn scores_stay_between_nothing_and_one(
            weight in 0.0f64..1.0, consistency in 0.0f64..1.0,
            at in proptest::num::i64::ANY, long in 0i64..1_000_000_000_000,
        ) {
            let one = CauseCandidate { between_us: [at, at.saturating_add(long)], ..candidate("x", weight, consistency) };
            let score = one.score([0, 60_000_000], 1.8e9);
            proptest::prop_assert!((0.0..=1.0).contains(&score), "{score}");
        }
    }
}
