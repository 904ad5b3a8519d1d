//! Days in minutes: an agent's events and diagnoses on paths with a known change.
//!
//! Each day is a path between namespaces, generated from a seed, that lasts ten minutes. In the
//! middle one change happens to it. An agent watches with correspondingly short intervals; its
//! events are then compared with the change. Time is the machine's own: nothing is simulated.
//!
//! Found: an event of a quantity that the story must move, with a change between one minute before
//! and three minutes after. Right: the first cause of one of these is that of the story.
//!
//! Wrong when: the machine is too busy to keep the lab's timing.

mod emulated_day;
mod path_story;

use super::markdown_table::MarkdownTable;
use super::scratch_folder::ScratchFolder;
use crate::parallel_jobs::run_in_parallel;
use crate::{BenchOutcome, list_missed};
use emulated_day::{DayResult, EmulatedDay};
pub use emulated_day::{add_agent, read_events};
use std::path::Path;

/// The number of seeds of a full bench.
const DAYS: u64 = 20;
/// The number of days that run at once; each needs a tenth of a core.
const JOBS: u64 = 3;
/// The share of days that must be found, and that must be explained.
const FOUND_RATIO: f64 = 0.95;
const RIGHT_RATIO: f64 = 0.9;

/// Returns the table, and a sentence for every missed gate, for stories whose name contains `only`.
pub fn run_all(
    longhaul: &Path,
    only: &str,
    keep: Option<&Path>,
    jobs: Option<u64>,
) -> Result<BenchOutcome, String> {
    xtask::test_requirements::check_namespaces()?;
    let scratch = ScratchFolder::new("days")?;
    let days = (1..=DAYS)
        .map(EmulatedDay::from_seed)
        .filter(|day| day.story.name.contains(only))
        .map(|day| (0, day));
    let jobs = jobs.unwrap_or(JOBS) as usize;
    let lived = run_in_parallel(days.collect(), jobs, |day| {
        let outcome = day.run(longhaul, &scratch, keep);
        let said = outcome.as_ref().map_or_else(Clone::clone, DayResult::line);
        eprintln!("day {:>2}, {}: {said}", day.seed, day.story.name);
        (day, outcome)
    });
    let table = format_table(&lived);
    Ok(BenchOutcome::new(&[table], check_gates(&lived)))
}

type DayOutcome = (EmulatedDay, Result<DayResult, String>);

fn format_table(lived: &[DayOutcome]) -> MarkdownTable {
    let columns = "day | what was done | found in | after, s | first cause |  | other events";
    let mut table = MarkdownTable::new("Days in ten minutes", columns);
    for (day, outcome) in lived {
        let mut row = vec![day.seed.to_string(), day.story.name.to_owned()];
        match outcome {
            Ok(lived) => row.extend(lived.cells(&day.story)),
            Err(why) => row.extend([why.clone(), String::new(), String::new(), "no".to_owned()]),
        }
        table.row(row);
    }
    table
}

fn check_gates(lived: &[DayOutcome]) -> Vec<String> {
    let share = |holds: fn(&EmulatedDay, &DayResult) -> bool| {
        let good = lived
            .iter()
            .filter(|(day, outcome)| outcome.as_ref().is_ok_and(|lived| holds(day, lived)));
        good.count() as f64 / lived.len().max(1) as f64
    };
    let found = share(|_, lived| lived.is_found());
    let right = share(|day, lived| lived.is_right(&day.story));
    let miss = |what: &str, share: f64, least: f64| {
        let (percent, least_percent) = (100.0 * share, 100.0 * least);
        let said = format!("{what} {percent:.0} % of the days, not {least_percent:.0} %");
        (share >= least, said)
    };
    list_missed([
        miss("events were found on", found, FOUND_RATIO),
        miss("the right cause came first on", right, RIGHT_RATIO),
    ])
}
