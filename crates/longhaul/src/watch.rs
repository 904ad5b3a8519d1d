//! Regular measurement, without a clock: what is asked for, and which run starts when.
//!
//! - [`mod@file`]: `watch.toml`, checked value by value
//! - [`jobs`]: the runs that one agent makes of it, again and again
//! - [`needs`]: what a run keeps to itself: hosts, interfaces, declared links
//! - [`rounds`]: turns of a mesh, so that agents do not meet at a far end
//! - [`schedule`]: the state machine that starts runs, and ends each as a result or with a reason
//! - [`locks`], [`budget`], [`draw`]: its parts
//! - [`forecast`]: what a file will cost, before anything runs
//!
//! Nothing here asks for the time or the host. Times are unix microseconds, durations microseconds.

pub mod budget;
pub mod draw;
pub mod file;
pub mod forecast;
pub mod jobs;
pub mod locks;
pub mod needs;
pub mod rounds;
pub mod schedule;

/// A second, in microseconds.
pub const SECOND_US: i64 = 1_000_000;
/// A day, in microseconds.
pub const DAY_US: i64 = 86_400 * SECOND_US;
