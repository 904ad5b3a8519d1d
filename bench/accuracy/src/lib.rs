//! Accuracy of the estimators: synthetic series with known truth, and the errors against it.
//!
//! Deterministic: the same seed always gives the same rows, so that a change of an estimator shows.
//! Units: ratios of the truth; the ramp's end in sample intervals. `coverage_ratio` is the share of
//! cases whose 95 % interval contains the truth.
//! Wrong when: real series differ from first-order noise with ramps and dips; see the lab's runs.

pub mod available_accuracy;
mod change_accuracy;
pub mod copy_pipeline;
pub mod load_accuracy;
mod loss_cases;
pub mod narrow_link_accuracy;
mod prediction_accuracy;
mod rate_series;
mod scan_accuracy;
pub mod synthetic_series;
mod tuning_accuracy;

pub use available_accuracy::evaluate_available as available;
pub use tuning_accuracy::{StrategyAccuracy, evaluate_guided_search, evaluate_rival_strategies};

use longhaul_analysis::limit::run_reading::read_run;
use longhaul_analysis::limit::shaper_fit;
use longhaul_analysis::stats::quantile::{quantile, sort_finite};
use longhaul_analysis::throughput::arrival_timeline::RunArrivals;
use longhaul_analysis::throughput::goodput::measure_goodput;
use longhaul_analysis::throughput::ramp_detection;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::splitmix::SplitMix64;
use loss_cases::LossCase;
use rate_series::{BucketCase, RateCase};

/// Spacing of the synthetic samples.
const STEP_US: u64 = 100_000;
/// The number of cases in each row.
const CASES: usize = 400;
/// The number of cases in rows that simulate a whole transfer for each case.
const TRANSFERS: usize = 120;

/// The errors of one method over many cases.
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyRow {
    pub method: &'static str,
    pub cases: usize,
    /// The number of cases in which the method gave a value.
    pub answered: usize,
    pub median_error_ratio: f64,
    pub p90_error_ratio: f64,
    /// The share of intervals that contain the truth, if the method gives intervals.
    pub coverage_ratio: Option<f64>,
}

/// Evaluates all estimators except those of available bandwidth and tuning, in a fixed order.
pub fn evaluate_estimators(seed: u64) -> Vec<AccuracyRow> {
    let mut rows = vec![
        evaluate_steady_goodput("steady goodput, white noise", &mut SplitMix64::new(seed), 0.0),
        evaluate_steady_goodput(
            "steady goodput, correlation 0.5",
            &mut SplitMix64::new(seed ^ 1),
            0.5,
        ),
        evaluate_steady_goodput(
            "steady goodput, correlation 0.8",
            &mut SplitMix64::new(seed ^ 2),
            0.8,
        ),
        evaluate_ramp_end(&mut SplitMix64::new(seed ^ 3)),
    ];
    rows.extend(evaluate_shapers(&mut SplitMix64::new(seed ^ 4)));
    rows.push(evaluate_false_shapers(&mut SplitMix64::new(seed ^ 5)));
    rows.push(evaluate_policers(
        "policer rate",
        &mut SplitMix64::new(seed ^ 6),
        LossCase::draw_policed,
    ));
    rows.push(evaluate_policers(
        "policer, random loss instead",
        &mut SplitMix64::new(seed ^ 7),
        LossCase::draw_random,
    ));
    rows.extend(scan_accuracy::evaluate_scans(seed ^ 8));
    rows.extend(prediction_accuracy::evaluate_prediction());
    rows.extend(narrow_link_accuracy::evaluate_narrow_link(seed ^ 9));
    rows.extend(load_accuracy::evaluate_load(seed ^ 0xc));
    rows.extend(change_accuracy::evaluate_changes(seed ^ 0xd));
    rows.push(copy_pipeline::evaluate_slow_stage(seed ^ 0xe));
    rows
}

/// The error of the policed rate. Without a policer, every answer is an error.
fn evaluate_policers(
    method: &'static str,
    rng: &mut SplitMix64,
    draw: fn(&mut SplitMix64) -> LossCase,
) -> AccuracyRow {
    let plan = ThroughputPlan::default();
    let mut errors = Vec::new();
    for _ in 0..TRANSFERS {
        let case = draw(rng);
        let found = read_run(&plan, &case.observation).policer;
        errors
            .extend(found.map(|p| case.rate_bps.map_or(1.0, |bps| (p.rate_bps / bps - 1.0).abs())));
    }
    AccuracyRow { cases: TRANSFERS, ..summarize_errors(method, errors) }
}

/// The error of the goodput and the coverage of its interval; ramps of 0 to 15 samples, some dips.
fn evaluate_steady_goodput(
    method: &'static str,
    rng: &mut SplitMix64,
    correlation: f64,
) -> AccuracyRow {
    let (mut errors, mut held, mut intervals) = (Vec::new(), 0usize, 0usize);
    for _ in 0..CASES {
        let case = RateCase::draw(rng, correlation);
        let arrivals = RunArrivals::from_rates(&case.rates_bps, STEP_US);
        let found = measure_goodput(&arrivals, ramp_detection::find_steady_span(&arrivals, None));
        let truth = case.truth_bps;
        if let Some([low, high]) = found.interval_bps {
            intervals += 1;
            held += usize::from((low as f64..=high as f64).contains(&truth));
        }
        errors.extend(found.bps.map(|bps| (bps as f64 / truth - 1.0).abs()));
    }
    AccuracyRow {
        coverage_ratio: Some(held as f64 / intervals.max(1) as f64),
        ..summarize_errors(method, errors)
    }
}

/// The distance of the estimated end of the ramp from the true one, in samples.
fn evaluate_ramp_end(rng: &mut SplitMix64) -> AccuracyRow {
    let mut errors = Vec::new();
    for _ in 0..CASES {
        let case = RateCase::draw(rng, 0.3);
        let found = ramp_detection::find_steady_span(
            &RunArrivals::from_rates(&case.rates_bps, STEP_US),
            None,
        );
        let truth = case.ramp_samples as f64;
        errors.extend(found.map(|s| (s.from_us as f64 / STEP_US as f64 - truth).abs()));
    }
    summarize_errors("ramp end (samples)", errors)
}

fn evaluate_shapers(rng: &mut SplitMix64) -> [AccuracyRow; 3] {
    let (mut peak, mut sustained, mut burst) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CASES {
        let case = BucketCase::draw(rng);
        let Some(found) =
            shaper_fit::find_shaper(&RunArrivals::from_rates(&case.rates_bps, STEP_US))
        else {
            continue;
        };
        peak.push((found.peak_bps / case.peak_bps - 1.0).abs());
        sustained.push((found.sustained_bps / case.sustained_bps - 1.0).abs());
        burst.push((found.burst_bytes / case.burst_bytes - 1.0).abs());
    }
    [
        summarize_errors("shaper peak", peak),
        summarize_errors("shaper sustained", sustained),
        summarize_errors("shaper burst", burst),
    ]
}

/// Shapers reported on paths without one; each counts as an error of 1.
fn evaluate_false_shapers(rng: &mut SplitMix64) -> AccuracyRow {
    let mut errors = Vec::new();
    for _ in 0..CASES {
        let case = RateCase::draw(rng, 0.5);
        errors.extend(
            shaper_fit::find_shaper(&RunArrivals::from_rates(&case.rates_bps, STEP_US))
                .map(|_| 1.0),
        );
    }
    summarize_errors("shaper, none there", errors)
}

fn summarize_errors(method: &'static str, errors: Vec<f64>) -> AccuracyRow {
    let errors = sort_finite(errors);
    AccuracyRow {
        method,
        cases: CASES,
        answered: errors.len(),
        median_error_ratio: quantile(&errors, 0.5).unwrap_or(0.0),
        p90_error_ratio: quantile(&errors, 0.9).unwrap_or(0.0),
        coverage_ratio: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> &'static [AccuracyRow] {
        static ROWS: std::sync::OnceLock<Vec<AccuracyRow>> = std::sync::OnceLock::new();
        ROWS.get_or_init(|| evaluate_estimators(1))
    }

    fn find(method: &str) -> AccuracyRow {
        let row = shared().iter().find(|r| r.method == method);
        row.unwrap().clone()
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_promise() {
        for row in shared().iter().filter(|r| r.coverage_ratio.is_some()) {
            let coverage = row.coverage_ratio.unwrap();
            assert!((0.90..=0.995).contains(&coverage), "{row:?}");
            assert!(row.median_error_ratio < 0.02, "{row:?}");
            assert!(row.answered * 100 >= row.cases * 97, "{row:?}");
        }
    }

    #[test]
    fn the_end_of_the_ramp_is_found_to_two_samples() {
        let row = find("ramp end (samples)");
        assert!(row.median_error_ratio <= 1.0 && row.p90_error_ratio <= 3.0, "{row:?}");
    }

    #[test]
    fn shapers_are_found_with_their_numbers_and_only_where_they_are() {
        let burst = find("shaper burst");
        assert!(burst.answered * 100 >= burst.cases * 95, "{burst:?}");
        assert!(burst.median_error_ratio < 0.04 && burst.p90_error_ratio < 0.12, "{burst:?}");
        assert!(find("shaper sustained").p90_error_ratio < 0.03);
        assert!(find("shaper, none there").answered <= 2);
    }

    #[test]
    fn policers_are_told_from_random_loss() {
        let found = find("policer rate");
        assert!(found.answered * 100 >= found.cases * 90, "{found:?}");
        assert!(found.median_error_ratio < 0.15, "{found:?}");
        let false_ones = find("policer, random loss instead");
        assert!(false_ones.answered * 100 <= false_ones.cases * 2, "{false_ones:?}");
    }

    #[test]
    fn scans_recommend_what_does_nearly_as_well_as_the_best() {
        let row = find("scan, regret of the recommended");
        assert_eq!(row.answered, row.cases, "{row:?}");
        assert!(row.median_error_ratio < 0.05 && row.p90_error_ratio < 0.12, "{row:?}");
    }

    #[test]
    fn scans_are_cut_where_the_path_changed_and_only_there() {
        let false_cuts = find("scan, steady path cut (5-10 % noise)");
        assert!(false_cuts.answered * 100 <= false_cuts.cases * 2, "{false_cuts:?}");
        let found = find("scan, step of 30 % (5-10 % noise)");
        assert!(found.answered * 100 >= found.cases * 90, "{found:?}");
        assert!(found.median_error_ratio < 0.1, "{found:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        assert_eq!(evaluate_estimators(1), shared());
    }
}
