//! What can be concluded from finished measurements: pure functions from an observation to
//! analysis, findings and caveats. Nothing here knows the clock, the host or the disk, and the same
//! observation gives the same conclusions for ever, per [`VERSION`].
//!
//! Read in this order: [`throughput`] (the entry: `conclude`), [`limit`] (what held the transfer
//! back), [`diagnose`] (why, and what to do), [`caveats`], [`beside`] (reports beside each other),
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

/// Of the reasoning; grows whenever the same observation would be judged otherwise.
pub const VERSION: u32 = 1;
