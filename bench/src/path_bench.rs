//! The accuracy of path measurements: on emulated paths, with real sockets, against their truth.
//!
//! - [`available_bench`]: available bandwidth and capacity by rate, load and pattern of cross traffic;
//!   the cost of light mode
//! - [`trace_bench`]: routes, compared with mtr if installed
//! - [`path_site`]: a path file, and longhaul on it
//!
//! All of it takes about 20 minutes. Wrong when: the machine is too busy to keep the lab's timing.

mod available_bench;
mod path_site;
mod trace_bench;

use crate::BenchOutcome;
use path_site::PathTestbed;
use std::path::Path;

type PathBenchRun = fn(&PathTestbed) -> BenchOutcome;

/// The parts by name, cheapest first.
const PARTS: &[(&str, PathBenchRun)] = &[
    ("light", available_bench::judge_light_mode),
    ("trace", trace_bench::judge_traces),
    ("available", available_bench::judge_available),
];

/// Runs the parts whose name contains `only`.
pub fn run_all(longhaul: &Path, only: &str) -> Result<BenchOutcome, String> {
    let ground = PathTestbed::new(longhaul)?;
    let mut outcome = BenchOutcome::default();
    for (name, part) in PARTS.iter().filter(|(name, _)| name.contains(only)) {
        let BenchOutcome { text, missed } = part(&ground);
        eprintln!("{name}: {} missed", missed.len());
        outcome.text.push_str(&text);
        let missed = missed.into_iter().map(|why| format!("{name}: {why}"));
        outcome.missed.extend(missed);
    }
    if outcome.text.is_empty() {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        return Err(format!("no part is called that; there are: {names}"));
    }
    Ok(outcome)
}
