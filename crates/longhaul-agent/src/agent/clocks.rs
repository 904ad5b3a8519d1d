//! Reads the two clocks that the schedule uses.

use crate::watch::run_schedule::ClockTimes;
use longhaul_probe::supervise;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The clocks of this process.
#[derive(Debug, Clone, Copy)]
pub struct AgentClocks {
    /// Replaces the time since boot on kernels that do not provide it.
    began: Instant,
}

impl AgentClocks {
    pub fn new() -> Self {
        AgentClocks { began: Instant::now() }
    }

    pub fn now(&self) -> ClockTimes {
        let steady = supervise::time_since_boot().unwrap_or_else(|_| self.began.elapsed());
        ClockTimes {
            wall_us: read_wall_us(),
            steady_us: i64::try_from(steady.as_micros()).unwrap_or(i64::MAX),
        }
    }
}

/// Returns microseconds since 1970, UTC; 0 for an earlier clock.
pub fn read_wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_micros()).unwrap_or(i64::MAX))
}
