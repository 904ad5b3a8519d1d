#![forbid(unsafe_code)]
//! The archive of finished runs: one SQLite file, one row for each report, and the
//! series that regular measurements give.
//!
//! A row is the report as JSON, untouched, plus a few columns derived from it for lists. Nobody
//! else speaks SQL. A run is appended before it is shown, so that it is never lost to a closed
//! terminal; an archive that fails costs the entry, never the result.
//!
//! - [`archive`]: open, append, list, read
//! - [`scans`]: what scans need: begun, parts, earlier ones
//! - [`watched`]: what an agent and its page ask of an archive, as a trait
//! - [`sqlite`]: that trait on the same file
//! - [`filed`]: how each kind of report is filed
//! - [`schema`]: the steps that bring a file to the present shape
//! - [`error`]: what the caller can act on

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
