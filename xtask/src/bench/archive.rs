//! What the archive of an agent bears: results that come in, and questions at ten million values.
//!
//! - [`append`]: batches of runs with their reports, in the shapes in which agents send them
//! - [`year`]: what it holds meanwhile
//! - [`ask`]: the grid, a year of one pair and other questions of the page

mod append;
mod ask;
mod year;

use super::scratch::Scratch;
use super::table::Table;
use crate::process::{cargo, show_and_run};
use longhaul_store::{Archive, StoreError};

/// The tables, and what of them missed its gate.
pub fn run_all() -> Result<(Vec<Table>, Vec<String>), String> {
    let scratch = Scratch::new("archive")?;
    let mut missed = Vec::new();
    let append = append::table(&scratch, &mut missed)?;
    let ask = ask::tables(&scratch, &mut missed)?;
    Ok(([vec![append], ask].concat(), missed))
}

/// Whether this program was built as users get theirs; figures of another say nothing.
pub const fn is_release() -> bool {
    !cfg!(debug_assertions)
}

/// The same bench by an xtask that is built as users get their program.
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

/// With its cause: the archive's error names the file and not the reason.
fn told(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}
