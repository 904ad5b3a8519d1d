//! The nouns of longhaul: what can be asked, seen and concluded.
//!
//! - [`packet`]: packets of a capture, decoded
//! - [`units`]: bytes, rates and durations, their text and their arithmetic
//! - [`report::v1`]: the one published shape, used for JSON, archive and web alike
//!
//! This crate knows no clock, no host, no disk and no network.

#![forbid(unsafe_code)]

pub mod packet;
pub mod report;
pub mod units;
