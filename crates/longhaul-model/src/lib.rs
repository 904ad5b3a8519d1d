//! The data types of longhaul (plans, observations and conclusions), for programs that read or write
//! its reports.
//!
//! - [`decoded_packet`]: decoded packets of a capture
//! - [`units`]: bytes, rates and durations: parsing, formatting, arithmetic
//! - [`foreign_text`]: deserialization of data from outside, which sanitizes every text
//! - [`sanitize`]: the sanitizer for text from outside
//! - [`report::v1`]: the published format of reports, used for JSON, archive and web alike
//! - [`serde_name`]: the names of enum variants
//! - [`splitmix`]: the random number generator
//!
//! This crate has no access to clock, host, disk or network.

#![forbid(unsafe_code)]

pub mod decoded_packet;
pub mod foreign_text;
pub mod report;
pub mod sanitize;
pub mod serde_name;
pub mod splitmix;
pub mod units;
