//! Scheduled measurements, independent of clock and host: the watch file and the scheduler.
//!
//! - [`mod@file`]: parses and checks `watch.toml`
//! - [`jobs`]: the recurring runs of one agent
//! - [`needs`]: resources of a run: hosts, interfaces, declared links
//! - [`rounds`]: rounds of a mesh, so that agents do not collide at a host
//! - [`schedule`]: the state machine that starts runs and ends each with a result or a reason
//! - [`locks`], [`budget`], [`draw`]: parts of the scheduler
//! - [`forecast`]: the cost of a watch file
//!
//! Nothing here reads a clock or the host. Times are Unix microseconds, durations microseconds.

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
