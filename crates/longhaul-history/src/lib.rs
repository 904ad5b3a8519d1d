//! Detects, explains and compares changes over many archived measurements, for anyone who keeps
//! series of throughput, loss or RTT, whatever tool measured them.
//!
//! - [`change_detection`]: lasting changes of a series, and events with stable names
//! - [`event`]: the causes of a change, the next measurements, and a text for the operator
//! - [`finish_forecast`]: when a transfer will finish, from series or from its progress
//! - [`shared_cause`]: what several paths share that changed at the same time
//! - [`report_comparison`]: two periods, two directions, two sets of runs, or all paths
//!
//! Everything here is a pure function of its arguments. Statistics and comparisons of routes come
//! from `longhaul-analysis`.

#![forbid(unsafe_code)]

pub mod change_detection;
pub mod event;
pub mod finish_forecast;
#[cfg(test)]
#[expect(dead_code, reason = "some builders serve the tests of the other crate only")]
#[path = "../../longhaul-analysis/src/path/path_test_builder.rs"]
mod path_test_builder;
pub mod report_comparison;
pub mod shared_cause;
