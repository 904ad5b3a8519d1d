//! Emulated long paths between network namespaces on this machine, with ground truth.
//!
//! - [`spec`]: what a path is

#![forbid(unsafe_code)]

pub mod spec;
