#![forbid(unsafe_code)]
//! The archive of finished runs, for programs that fill or read one.
//!
//! It is one SQLite file with one row per report, and the series of scheduled measurements.
//!
//! A row has the report as JSON, unchanged, and a few derived columns for lists. No other crate
//! uses SQLite. A run is stored before it is shown, so a closed terminal does not lose it. If the
//! archive fails, the result is still shown.
//!
//! - [`archive`]: open, append, list, read
//! - [`archive_maintenance`]: check, back up, delete runs
//! - [`scan_archive`]: unfinished scans, their probes, and earlier scans
//! - [`history_store`]: what an agent stores and queries
//! - [`sqlite`]: the history of an agent, in the same file
//! - [`archived_report`]: JSON and derived columns of each kind of report
//! - [`store_error`]: errors by what the user can do

pub mod archive;
pub mod archive_maintenance;
pub mod archived_report;
pub mod history_store;
pub mod scan_archive;
pub mod sqlite;
pub mod store_error;

pub use archive::archive_file::create_private_folder;
pub use archive::{AppendOutcome, Archive, RunEntry};
pub use scan_archive::{PathSelector, UnfinishedScan};
pub use store_error::StoreError;
