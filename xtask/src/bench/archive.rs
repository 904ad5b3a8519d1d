//! The performance of an agent's archive: inserts, and queries at ten million values.
//!
//! - [`append`]: batches of runs with their reports, as agents send them
//! - [`year`]: the contents of the archive
//! - [`ask`]: the grid, a year of one pair and other queries of the page

mod append;
mod ask;
mod year;

use super::scratch::Scratch;
use super::table::Table;
use crate::process::{cargo, show_and_run};
use longhaul_store::{Archive, StoreError};

/// Returns the tables, and a sentence for every missed gate.
pub fn run_all() -> Result<(Vec<Table>, Vec<String>), String> {
    let scratch = Scratch::new("archive")?;
    let mut missed = Vec::new();
    let append = append::table(&scratch, &mut missed)?;
    let ask = ask::tables(&scratch, &mut missed)?;
    Ok(([vec![append], ask].concat(), missed))
}

/// Reports whether this is a release build; other builds give meaningless figures.
pub const fn is_release() -> bool {
    !cfg!(debug_assertions)
}

/// Runs the same bench in a release build of xtask.
pub fn again_in_release(options: &[&str]) -> crate::Outcome {
    let asked = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "xtask",
        "--",
        "bench",
        "archive",
    ];
    show_and_run(cargo().args(asked).args(options))
}

fn open(scratch: &Scratch, name: &str) -> Result<Archive, String> {
    Archive::open(&scratch.path(name)).map_err(|e| told(&e))
}

/// Formats the error with its cause: the archive's error names the file but not the reason.
fn told(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}
