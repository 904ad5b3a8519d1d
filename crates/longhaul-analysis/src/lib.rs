//! Conclusions from finished measurements: pure functions from an observation to analysis, findings
//! and caveats. Nothing here reads the clock, the host or the disk, and the same observation always
//! gives the same conclusions for a given [`VERSION`].
//!
//! Read in this order: [`throughput`] (the entry: `conclude`), [`limit`] (the limiter of the
//! transfer), [`diagnose`] (reasons and advice), [`caveats`], [`beside`] (comparison of reports),
//! [`stats`], [`accuracy`].

#![forbid(unsafe_code)]

pub mod accuracy;
pub mod audit;
pub mod available;
pub mod beside;
pub mod capture;
pub mod caveats;
pub mod claim;
pub mod copy;
pub mod detect;
pub mod diagnose;
pub mod event;
pub mod imported;
pub mod limit;
pub mod load;
pub mod path;
pub mod predict;
pub mod record;
pub mod scan;
pub mod stats;
pub mod throughput;
pub mod tune;

/// The version of the analysis; incremented when the same observation is judged differently.
pub const VERSION: u32 = 1;
