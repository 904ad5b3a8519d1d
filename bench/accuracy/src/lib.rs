//! Simulated paths and series with known truth, and the errors of estimators against it, for authors
//! of estimators.
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

pub use available_accuracy::evaluate_available;

use longhaul_analysis::limit::run_reading::read_run;
use longhaul_analysis::limit::shaper_fit;
use longhaul_analysis::stats::{quantile, sort_finite};
use longhaul_analysis::throughput::arrival_timeline::RunArrivals;
use longhaul_analysis::throughput::{TransferEvidence, find_steady_span, measure_goodput};
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
    pub method: String,
    pub cases: usize,
    /// The number of cases in which the method gave a value.
    pub answered: usize,
    pub median_error_ratio: f64,
    pub p90_error_ratio: f64,
    /// The share of intervals that contain the truth, if the method gives intervals.
    pub coverage_ratio: Option<f64>,
}

/// Collects the errors of one row.
#[derive(Debug, Default)]
pub struct ErrorTally {
    pub cases: usize,
    pub errors: Vec<f64>,
    intervals: usize,
    /// The intervals that contain the truth.
    pub held: usize,
}

impl ErrorTally {
    /// Creates it from the error of each case, `None` for a case without an answer.
    fn of(errors: impl IntoIterator<Item = Option<f64>>) -> ErrorTally {
        let mut tally = ErrorTally::default();
        errors.into_iter().for_each(|error| tally.add_error(error));
        tally
    }

    fn add_error(&mut self, error: Option<f64>) {
        self.cases += 1;
        self.errors.extend(error);
    }

    fn add_interval(&mut self, interval: Option<[f64; 2]>, truth: f64) {
        if let Some([low, high]) = interval {
            self.intervals += 1;
            self.held += usize::from((low..=high).contains(&truth));
        }
    }

    /// Adds a rate or size with its interval; the error is a share of `unit`.
    pub fn add(&mut self, value: Option<u64>, interval: Option<[u64; 2]>, truth: f64, unit: f64) {
        self.add_error(value.map(|value| (value as f64 - truth).abs() / unit));
        self.add_interval(interval.map(convert_interval), truth);
    }

    pub fn merge(&mut self, other: ErrorTally) {
        self.cases += other.cases;
        self.errors.extend(other.errors);
        self.intervals += other.intervals;
        self.held += other.held;
    }

    fn row(self, method: impl Into<String>) -> AccuracyRow {
        let errors = sort_finite(self.errors);
        AccuracyRow {
            method: method.into(),
            cases: self.cases,
            answered: errors.len(),
            median_error_ratio: quantile(&errors, 0.5).unwrap_or(0.0),
            p90_error_ratio: quantile(&errors, 0.9).unwrap_or(0.0),
            coverage_ratio: (self.intervals > 0).then(|| self.held as f64 / self.intervals as f64),
        }
    }
}

fn convert_interval(interval: [u64; 2]) -> [f64; 2] {
    interval.map(|value| value as f64)
}

/// Evaluates all estimators except those of available bandwidth, in a fixed order.
pub fn evaluate_estimators(seed: u64) -> Vec<AccuracyRow> {
    let rng = |part: u64| SplitMix64::new(seed ^ part);
    let mut rows = vec![
        evaluate_steady_goodput("steady goodput, white noise", &mut rng(0), 0.0),
        evaluate_steady_goodput("steady goodput, correlation 0.5", &mut rng(1), 0.5),
        evaluate_steady_goodput("steady goodput, correlation 0.8", &mut rng(2), 0.8),
        evaluate_ramp_end(&mut rng(3)),
    ];
    rows.extend(evaluate_shapers(&mut rng(4)));
    rows.push(evaluate_false_shapers(&mut rng(5)));
    rows.push(evaluate_policers("policer rate", &mut rng(6), LossCase::draw_policed));
    let random = LossCase::draw_random;
    rows.push(evaluate_policers("policer, random loss instead", &mut rng(7), random));
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
    let errors = (0..TRANSFERS).map(|_| {
        let case = draw(rng);
        let found = read_run(&plan, &case.observation, TransferEvidence::default()).policer;
        found.map(|p| case.rate_bps.map_or(1.0, |bps| (p.rate_bps / bps - 1.0).abs()))
    });
    ErrorTally::of(errors).row(method)
}

/// The error of the goodput and the coverage of its interval; ramps of 0 to 15 samples, some dips.
fn evaluate_steady_goodput(
    method: &'static str,
    rng: &mut SplitMix64,
    correlation: f64,
) -> AccuracyRow {
    let mut tally = ErrorTally::default();
    for _ in 0..CASES {
        let case = RateCase::draw(rng, correlation);
        let arrivals = RunArrivals::from_rates(&case.rates_bps, STEP_US);
        let found = measure_goodput(&arrivals, find_steady_span(&arrivals, None));
        tally.add_interval(found.interval_bps.map(convert_interval), case.truth_bps);
        tally.add_error(found.bps.map(|bps| (bps as f64 / case.truth_bps - 1.0).abs()));
    }
    tally.row(method)
}

/// The distance of the estimated end of the ramp from the true one, in samples.
fn evaluate_ramp_end(rng: &mut SplitMix64) -> AccuracyRow {
    let errors = (0..CASES).map(|_| {
        let case = RateCase::draw(rng, 0.3);
        let arrivals = RunArrivals::from_rates(&case.rates_bps, STEP_US);
        let found = find_steady_span(&arrivals, None);
        let truth = case.ramp_samples as f64;
        found.map(|s| (s.from_us as f64 / STEP_US as f64 - truth).abs())
    });
    ErrorTally::of(errors).row("ramp end (samples)")
}

fn evaluate_shapers(rng: &mut SplitMix64) -> [AccuracyRow; 3] {
    let mut tallies = <[ErrorTally; 3]>::default();
    for _ in 0..CASES {
        let case = BucketCase::draw(rng);
        let found = shaper_fit::find_shaper(&RunArrivals::from_rates(&case.rates_bps, STEP_US));
        let ratios = found.map(|found| {
            [
                found.peak_bps / case.peak_bps,
                found.sustained_bps / case.sustained_bps,
                found.burst_bytes / case.burst_bytes,
            ]
        });
        for (at, tally) in tallies.iter_mut().enumerate() {
            tally.add_error(ratios.map(|ratios| (ratios[at] - 1.0).abs()));
        }
    }
    let [peak, sustained, burst] = tallies;
    [peak.row("shaper peak"), sustained.row("shaper sustained"), burst.row("shaper burst")]
}

/// Shapers reported on paths without one; each counts as an error of 1.
fn evaluate_false_shapers(rng: &mut SplitMix64) -> AccuracyRow {
    let errors = (0..CASES).map(|_| {
        let case = RateCase::draw(rng, 0.5);
        let arrivals = RunArrivals::from_rates(&case.rates_bps, STEP_US);
        shaper_fit::find_shaper(&arrivals).map(|_| 1.0)
    });
    ErrorTally::of(errors).row("shaper, none there")
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
