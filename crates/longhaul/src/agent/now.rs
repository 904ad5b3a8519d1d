//! Reads the two clocks that the schedule uses.

use crate::watch::schedule::Now;
use longhaul_probe::supervise;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The clocks of this process.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// Replaces the time since boot on kernels that do not provide it.
    began: Instant,
}

impl Clocks {
    pub fn new() -> Self {
        Clocks {
            began: Instant::now(),
        }
    }

    pub fn now(&self) -> Now {
        let steady = supervise::since_boot().unwrap_or_else(|_| self.began.elapsed());
        Now {
            wall_us: wall_us(),
            steady_us: i64::try_from(steady.as_micros()).unwrap_or(i64::MAX),
        }
    }
}

/// Returns microseconds since 1970, UTC; 0 for an earlier clock.
pub fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_micros()).unwrap_or(i64::MAX))
}
