//! The performance of an agent's archive: inserts, and queries at ten million values.
//!
//! - [`append_rate`]: batches of runs with their reports, as agents send them
//! - [`year`]: the contents of the archive
//! - [`fleet_archive`]: the same on ClickHouse
//! - [`archive_queries`]: the grid, a year of one pair and other queries of the page

mod append_rate;
mod archive_queries;
mod fleet_archive;
mod year;

use super::scratch_folder::ScratchFolder;
use crate::BenchOutcome;
pub use fleet_archive::bench_fleet_archive;
use longhaul_store::{Archive, StoreError};

/// Runs inserts and queries on SQLite.
pub fn run_all() -> Result<BenchOutcome, String> {
    let scratch = ScratchFolder::new("archive")?;
    let mut missed = Vec::new();
    let append = append_rate::measure_appends(&scratch, &mut missed)?;
    let ask = archive_queries::measure_queries(&scratch, &mut missed)?;
    Ok(BenchOutcome::new(&[vec![append], ask].concat(), missed))
}

fn open_archive(scratch: &ScratchFolder, name: &str) -> Result<Archive, String> {
    Archive::open(&scratch.path(name)).map_err(|e| format_store_error(&e))
}

/// Formats the error with its cause: the archive's error names the file but not the reason.
fn format_store_error(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}
