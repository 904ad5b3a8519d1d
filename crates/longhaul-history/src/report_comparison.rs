//! Comparisons of archived reports: two periods, two directions, two sets of runs, all paths, or the
//! transfers of each day.
//!
//! Pure: periods and reports are arguments, and the same ones always give the same result.

mod archived_path;
pub mod asymmetry_causes;
pub mod daily_transfers;
pub mod direction_asymmetry;
pub mod period_case;
pub mod period_settings;
pub mod run_set_comparison;
pub mod site_summary;
#[cfg(test)]
pub(crate) mod test_archive;

pub use archived_path::{ArchivedPath, ArchivedRun, reverse_pair};
