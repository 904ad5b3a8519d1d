//! The guided search against whole grids, and predictions against measurements.
//!
//! - [`simulated`]: 600 paths with known truth
//! - [`emulated`]: the paths of fixtures/tuning.toml, each with its whole grid measured
//! - [`predicted`]: `longhaul predict` against measured scans
//! - [`paths`], [`setting`], [`ground`], [`jobs`]: the paths, their settings, their setup
//!
//! Wrong when: the machine is too busy to keep the lab's timing. The best of 40 cells is also the
//! luckiest, so grid best, choice and default are measured again, in turns, before they are
//! compared.

mod emulated;
mod ground;
mod jobs;
mod paths;
mod predicted;
mod setting;
mod simulated;

use super::table::Table;
use crate::process;
use ground::Ground;
use paths::Paths;
use std::path::Path;
use std::time::Instant;

/// The default number of paths that are measured at once.
const JOBS: usize = 3;

/// The results of all requested parts.
#[derive(Debug, Default)]
pub struct Verdict {
    pub tables: Vec<Table>,
    /// A sentence for every missed gate.
    pub missed: Vec<String>,
}

impl Verdict {
    fn add(&mut self, (table, missed): (Table, Vec<String>)) {
        self.tables.push(table);
        self.missed.extend(missed);
    }
}

/// Runs the parts and paths whose name contains `only`: `simulated paths`, `tune NAME`,
/// `predict NAME`; each report is also written to the folder `keep`.
pub fn run_all(only: &str, keep: Option<&Path>, jobs: Option<usize>) -> Result<Verdict, String> {
    let mut verdict = Verdict::default();
    if simulated::NAME.contains(only) {
        verdict.add(simulated::verdict());
    }
    let chosen = |part: &str, paths: Vec<paths::Path>| -> Vec<paths::Path> {
        let named = |path: &paths::Path| format!("{part} {}", path.name).contains(only);
        paths.into_iter().filter(named).collect()
    };
    let all = Paths::read()?;
    let (tune, predict) = (chosen("tune", all.tune), chosen("predict", all.predict));
    if tune.is_empty() && predict.is_empty() {
        return Ok(verdict);
    }
    let longhaul = process::longhaul()?;
    let ground = Ground::new(&longhaul, keep)?;
    let jobs = jobs.unwrap_or(JOBS);
    if !tune.is_empty() {
        let began = Instant::now();
        verdict.add(emulated::verdict(&ground, tune, jobs));
        eprintln!("emulated paths: {} s", began.elapsed().as_secs());
    }
    if !predict.is_empty() {
        let began = Instant::now();
        verdict.add(predicted::verdict(&ground, predict, jobs));
        eprintln!("predictions: {} s", began.elapsed().as_secs());
    }
    Ok(verdict)
}
