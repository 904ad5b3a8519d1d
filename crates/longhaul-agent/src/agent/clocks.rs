//! Reads the two clocks that the schedule uses.

use crate::watch::run_schedule::ClockTimes;
use longhaul_probe::supervise;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time of both clocks.
pub fn read_clock_times() -> ClockTimes {
    // All supported kernels provide the time since boot.
    let steady = supervise::time_since_boot().unwrap_or_default();
    ClockTimes {
        wall_us: read_wall_us(),
        steady_us: i64::try_from(steady.as_micros()).unwrap_or(i64::MAX),
    }
}

/// Returns microseconds since 1970, UTC; 0 for an earlier clock.
pub fn read_wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_micros()).unwrap_or(i64::MAX))
}
