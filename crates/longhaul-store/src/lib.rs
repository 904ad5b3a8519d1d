#![forbid(unsafe_code)]
//! The archive of finished runs: one SQLite file with one row per report, and the series of
//! scheduled measurements.
//!
//! A row has the report as JSON, unchanged, and a few derived columns for lists. No other crate
//! uses SQLite. A run is stored before it is shown, so a closed terminal does not lose it. If the
//! archive fails, the result is still shown.
//!
//! - [`archive`]: open, append, list, read
//! - [`scans`]: unfinished scans, their probes, and earlier scans
//! - [`watched`]: the trait for the history of an agent
//! - [`sqlite`]: the implementation of that trait on the same file
//! - [`filed`]: JSON and derived columns of each kind of report
//! - [`schema`]: schema steps of an archive file
//! - [`error`]: errors by what the user can do

pub mod archive;
pub mod error;
pub mod filed;
pub mod scans;
pub mod schema;
pub mod sqlite;
pub mod watched;

pub use archive::{Appended, Archive, Entry};
pub use error::StoreError;
pub use scans::Begun;
pub use watched::Watched;
