//! The guided search against whole grids, and predictions against measurements.
//!
//! - [`simulated_search`]: 600 paths with known truth
//! - [`emulated_search`]: the paths of fixtures/tuning.toml, each with its whole grid measured
//! - [`prediction_bench`]: `longhaul predict` against measured scans
//! - [`tuning_paths`], [`bench_setting`], [`tune_testbed`]: the paths, their settings, their setup
//!
//! Wrong when: the machine is too busy to keep the lab's timing. The best of 40 cells is also the
//! luckiest, so grid best, choice and default are measured again, in turns, before they are
//! compared.

mod bench_setting;
mod emulated_search;
mod prediction_bench;
mod simulated_search;
mod tune_testbed;
mod tuning_paths;

use crate::BenchOutcome;
use std::path::Path;
use std::time::Instant;
use tune_testbed::TuneTestbed;
use tuning_paths::{TuneFixturePath, TuneFixturePaths};
use xtask::program_runner;

/// The default number of paths that are measured at once.
const JOBS: u64 = 3;

/// Runs the parts and paths whose name contains `only`: `simulated paths`, `tune NAME`,
/// `predict NAME`; each report is also written to the folder `keep`.
pub fn run_all(only: &str, keep: Option<&Path>, jobs: Option<u64>) -> Result<BenchOutcome, String> {
    let mut outcome = BenchOutcome::default();
    if simulated_search::NAME.contains(only) {
        outcome.add(simulated_search::judge_strategies());
    }
    let chosen = |part: &str, mut paths: Vec<TuneFixturePath>| {
        paths.retain(|path| format!("{part} {}", path.name).contains(only));
        paths
    };
    let all = TuneFixturePaths::read()?;
    let (tune, predict) = (chosen("tune", all.tune), chosen("predict", all.predict));
    if tune.is_empty() && predict.is_empty() {
        return Ok(outcome);
    }
    let longhaul = program_runner::build_longhaul()?;
    let ground = TuneTestbed::new(&longhaul, keep)?;
    let jobs = jobs.unwrap_or(JOBS) as usize;
    if !tune.is_empty() {
        let began = Instant::now();
        outcome.add(emulated_search::judge_searches(&ground, tune, jobs));
        eprintln!("emulated paths: {} s", began.elapsed().as_secs());
    }
    if !predict.is_empty() {
        let began = Instant::now();
        outcome.add(prediction_bench::judge_predictions(&ground, predict, jobs));
        eprintln!("predictions: {} s", began.elapsed().as_secs());
    }
    Ok(outcome)
}
