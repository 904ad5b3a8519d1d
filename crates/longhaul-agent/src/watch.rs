//! Scheduled measurements, independent of clock and host: the watch file and the scheduler.
//!
//! - [`mod@watch_file`]: parses and checks `watch.toml`
//! - [`measure_jobs`]: the recurring runs of one agent
//! - [`path_resources`]: resources of a run: hosts, interfaces, declared links
//! - [`mesh_rounds`]: rounds of a mesh, so that agents do not collide at a host
//! - [`run_schedule`]: the state machine that starts runs and ends each with a result or a reason
//! - [`watch_forecast`]: the cost of a watch file
//!
//! Nothing here reads a clock or the host. Times are Unix microseconds, durations microseconds.

pub mod daily_budget;
pub mod hash_random;
pub mod measure_jobs;
pub mod mesh_rounds;
pub mod path_resources;
pub mod run_schedule;
pub mod watch_file;
pub mod watch_forecast;

/// A second, in microseconds.
pub const SECOND_US: i64 = 1_000_000;
/// A day, in microseconds.
pub const DAY_US: i64 = 86_400 * SECOND_US;
