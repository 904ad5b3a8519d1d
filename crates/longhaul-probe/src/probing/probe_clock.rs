//! Relation of the wall clock, which stamps received packets, to the monotonic clock.

use crate::engine::RunClock;
use crate::path::clock_pair::ClockPair;
use std::time::Duration;

impl RunClock {
    /// Returns the wall clock (since 1970) minus the monotonic clock, in nanoseconds.
    pub fn wall_offset_ns(self) -> i64 {
        ClockPair::now(self.0).offset_ns() as i64
    }
}

/// Converts a wall-clock time to the monotonic clock.
pub(super) fn wall_to_monotonic_ns(wall_ns: u64, offset_ns: i64) -> u64 {
    let steady = i128::from(wall_ns) - i128::from(offset_ns);
    u64::try_from(steady.max(0)).unwrap_or(u64::MAX)
}

pub(super) fn saturating_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Instant, SystemTime};

    #[test]
    fn two_readings_of_an_undisturbed_clock_agree() {
        let clock = RunClock(Instant::now());
        let (first, second) = (clock.wall_offset_ns(), clock.wall_offset_ns());
        // A busy machine may preempt the thread between two readings, but not for a second.
        assert!((first - second).abs() < 1_000_000_000);
        let wall =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, saturating_nanos);
        let apart = clock.now_ns().abs_diff(wall_to_monotonic_ns(wall, second));
        assert!(apart < 1_000_000_000, "{apart} ns");
    }

    #[test]
    fn times_before_the_epoch_are_zero_and_nothing_overflows() {
        assert_eq!(wall_to_monotonic_ns(5, 10), 0);
        assert_eq!(wall_to_monotonic_ns(u64::MAX, i64::MIN), u64::MAX);
    }
}
