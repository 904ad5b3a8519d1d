//! The performance of an agent's archive: inserts, and queries at ten million values.
//!
//! - [`append_rate`]: batches of runs with their reports, as agents send them
//! - [`year`]: the contents of the archive
//! - [`archive_queries`]: the grid, a year of one pair and other queries of the page

mod append_rate;
mod archive_queries;
mod year;

use super::markdown_table::MarkdownTable;
use super::scratch_folder::ScratchFolder;
use crate::program_runner::{cargo_command, show_and_run};
use longhaul_store::{Archive, StoreError};

/// Returns the tables, and a sentence for every missed gate.
pub fn run_all() -> Result<(Vec<MarkdownTable>, Vec<String>), String> {
    let scratch = ScratchFolder::new("archive")?;
    let mut missed = Vec::new();
    let append = append_rate::measure_appends(&scratch, &mut missed)?;
    let ask = archive_queries::measure_queries(&scratch, &mut missed)?;
    Ok(([vec![append], ask].concat(), missed))
}

/// Reports whether this is a release build; other builds give meaningless figures.
pub const fn is_release() -> bool {
    !cfg!(debug_assertions)
}

/// Runs the same bench in a release build of xtask.
pub fn rerun_in_release(options: &[&str]) -> crate::TaskResult {
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
    show_and_run(cargo_command().args(asked).args(options))
}

fn open_archive(scratch: &ScratchFolder, name: &str) -> Result<Archive, String> {
    Archive::open(&scratch.path(name)).map_err(|e| format_store_error(&e))
}

/// Formats the error with its cause: the archive's error names the file but not the reason.
fn format_store_error(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}
