//! Scores candidate causes and selects those that are named.
//!
//! Each candidate has the score s = w · timing · consistency: the weight of its kind, how near it
//! is in time, and whether it fits the observations (1 fits, 0.5 unknown, 0 contradicts). The best
//! is named if its score is at least 0.5, together with all others within 0.2 of it.
//!
//! Source: longhaul's own; weights are in docs/methods/causes.md. Units: none, 0 to 1.
//! Error: a score is not a probability; it ranks the causes, with a threshold of 0.5.
//! Wrong when: the true cause left no trace in the evidence.

use longhaul_model::report::v1::ReportFinding;

/// Weights by kind of cause.
pub mod weight {
    pub const TEST_PARAMETER: f64 = 1.0;
    pub const HOST: f64 = 0.9;
    pub const ROUTE: f64 = 0.8;
    /// Capacity, shaper, policer, path MTU.
    pub const LINK: f64 = 0.8;
    pub const RETUNE: f64 = 0.8;
    pub const RECOVERY: f64 = 0.8;
    pub const TRANSFER: f64 = 0.75;
    pub const CROSS_TRAFFIC: f64 = 0.7;
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

/// Selects the named causes, the most likely first; ties keep the given order.
pub fn select_named_causes(mut candidates: Vec<ReportFinding>) -> Vec<ReportFinding> {
    candidates.sort_by(|a, b| b.confidence_ratio.total_cmp(&a.confidence_ratio));
    let best = candidates.first().map_or(0.0, |finding| finding.confidence_ratio);
    let least = MIN_BEST_SCORE.max(best - MAX_SCORE_DISTANCE) - ROUNDING;
    candidates.retain(|finding| finding.confidence_ratio >= least);
    for finding in &mut candidates {
        finding.confidence_ratio = finding.confidence_ratio.clamp(0.0, MAX_CONFIDENCE);
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(candidates: &[(&str, f64)]) -> Vec<String> {
        let build = |(cause, score): &(&str, f64)| ReportFinding::new(cause, *score, "");
        let found = select_named_causes(candidates.iter().map(build).collect());
        found.into_iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn the_best_is_named_and_what_is_near_it() {
        assert_eq!(causes(&[("far", 0.55), ("near", 0.6), ("best", 0.8)]), ["best", "near"]);
    }

    #[test]
    fn nothing_below_a_half_is_named() {
        assert!(causes(&[("weak", 0.45)]).is_empty());
        assert_eq!(causes(&[("just", 0.5)]), ["just"]);
    }
}
