//! The wall clock, which stamps what arrives, against the monotonic one, which is never set.

use std::time::{Duration, Instant, SystemTime};

/// Readings taken, of which the tightest counts: a thread may lose its core between two clocks.
const TRIES: u32 = 3;

/// A zero on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    /// `epoch` is zero of the monotonic times.
    pub fn new(epoch: Instant) -> Clock {
        Clock { epoch }
    }

    /// Monotonic nanoseconds since the epoch.
    pub fn now_ns(self) -> u64 {
        nanos(self.epoch.elapsed())
    }

    /// Wall clock since 1970 minus the monotonic clock, in nanoseconds.
    pub fn wall_offset_ns(self) -> i64 {
        let read = || {
            let before = self.now_ns();
            let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let after = self.now_ns();
            let middle = before + (after - before) / 2;
            let wall = wall.map_or(0, nanos);
            (after - before, (wall as i64).wrapping_sub(middle as i64))
        };
        let readings = (0..TRIES).map(|_| read());
        readings
            .min_by_key(|(width, _)| *width)
            .map_or(0, |(_, offset)| offset)
    }
}

/// A time of the wall clock on the monotonic one.
pub(super) fn steady_ns(wall_ns: u64, offset_ns: i64) -> u64 {
    let steady = i128::from(wall_ns) - i128::from(offset_ns);
    u64::try_from(steady.max(0)).unwrap_or(u64::MAX)
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_of_an_undisturbed_clock_agree() {
        let clock = Clock::new(Instant::now());
        let (first, second) = (clock.wall_offset_ns(), clock.wall_offset_ns());
        // A busy machine can take the core between two readings, but not for a second.
        assert!((first - second).abs() < 1_000_000_000);
        let wall = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, nanos);
        let apart = clock.now_ns().abs_diff(steady_ns(wall, second));
        assert!(apart < 1_000_000_000, "{apart} ns");
    }

    #[test]
    fn times_before_the_epoch_are_zero_and_nothing_overflows() {
        assert_eq!(steady_ns(5, 10), 0);
        assert_eq!(steady_ns(u64::MAX, i64::MIN), u64::MAX);
    }
}
