//! The accuracy of level change detection.
//!
//! Two data sets: series annotated by people (the Turing Change Point Dataset, given by `--data`),
//! and generated throughput series with known steps. `detect_steps` of the analysis is compared with
//! SLAC's plateau rule, PELT, BOCPD and no detection.
//!
//! - [`annotated_series`]: the annotated series, and the scores over several annotators
//! - [`reference_detectors`]: the other detectors
//! - [`generated_series`]: the generated series
//! - [`detect_speed`]: the time of one analysis
//!
//! Wrong when: the annotations cover half of the set only; figures of the whole set differ
//! slightly.

mod annotated_series;
mod detect_speed;
mod generated_series;
mod reference_detectors;

use crate::BenchOutcome;
use std::path::Path;

/// Runs all parts; without `data` the annotated series are left out.
pub fn run_all(data: Option<&Path>) -> Result<BenchOutcome, String> {
    let mut outcome = BenchOutcome::default();
    match data {
        Some(folder) => outcome.add(annotated_series::judge_detectors(folder)?),
        None => eprintln!("The marked series were not judged: give their folder with `--data`."),
    }
    outcome.add(generated_series::judge_detectors());
    let tables = [generated_series::measure_delays(), detect_speed::measure_detect_time()];
    outcome.add(BenchOutcome::ungated(&tables));
    Ok(outcome)
}

/// Positions of changes, as indices of the first value after each.
type ChangePositions = Vec<usize>;

/// A detector over plain values.
type LevelDetector = fn(&[f64]) -> ChangePositions;

const DETECTORS: [(&str, LevelDetector); 6] = [
    ("none", |_| Vec::new()),
    ("plateau, 2004", reference_detectors::detect_plateaus_2004),
    ("plateau, 2008", reference_detectors::detect_plateaus_2008),
    ("PELT, l2, BIC", reference_detectors::detect_pelt),
    ("BOCPD, 1/100", reference_detectors::detect_bocpd),
    ("**steps**", reference_detectors::detect_steps),
];
