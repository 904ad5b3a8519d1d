//! Conversion of the kernel's wall-clock timestamps to the monotonic clock.
//!
//! The kernel stamps packets with the wall clock, which may be set while a probe is outstanding. A
//! timestamp is trusted only if both clocks advanced equally from the sending of the probe to the
//! reading of its answer, and if it falls between the two. Otherwise the time of reading counts,
//! which is later by the latency of the kernel and this program.

use std::time::{Duration, Instant, SystemTime};

/// Maximum drift between two clocks of one host: NTP slews no faster.
const SLEW_PPM: u128 = 500;
/// Tolerated duration of reading the two clocks one after the other.
const READ_TOLERANCE: Duration = Duration::from_micros(20);
/// Attempts to read both clocks without an interruption in between.
const ATTEMPTS: u32 = 3;

/// Both clocks of this host, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPair {
    /// Since the start of the series.
    pub monotonic: Duration,
    /// Since 1970.
    pub wall: Duration,
    /// Maximum distance between the two readings.
    pub uncertainty: Duration,
}

impl ClockPair {
    /// Reads both clocks. `epoch` is the start of the series.
    pub fn now(epoch: Instant) -> ClockPair {
        let mut best = ClockPair::read(epoch);
        for _ in 1..ATTEMPTS {
            if best.uncertainty <= READ_TOLERANCE {
                break;
            }
            best = ClockPair::read(epoch);
        }
        best
    }

    fn read(epoch: Instant) -> ClockPair {
        let before = epoch.elapsed();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let after = epoch.elapsed();
        ClockPair { monotonic: after, wall, uncertainty: after.saturating_sub(before) }
    }

    /// Returns the wall clock minus the monotonic clock.
    pub fn offset_ns(&self) -> i128 {
        self.wall.as_nanos() as i128 - self.monotonic.as_nanos() as i128
    }

    /// Returns whether neither clock was set between the two readings, as far as they can tell.
    fn agrees_with(&self, later: &ClockPair) -> bool {
        let apart = later.offset_ns().abs_diff(self.offset_ns());
        let between = later.monotonic.saturating_sub(self.monotonic).as_nanos();
        let slewed = between * SLEW_PPM / 1_000_000;
        apart <= slewed + (self.uncertainty + later.uncertainty + READ_TOLERANCE).as_nanos()
    }
}

/// Converts the kernel's wall-clock `stamp` to the monotonic clock, for a packet of a probe sent at
/// `sent` and read at `read`. Returns `None` if the timestamp cannot be right.
pub fn stamp_to_monotonic(stamp: Duration, sent: &ClockPair, read: &ClockPair) -> Option<Duration> {
    if !sent.agrees_with(read) {
        return None;
    }
    let waited = read.wall.checked_sub(stamp)?;
    let at = read.monotonic.checked_sub(waited)?;
    (at >= sent.monotonic).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WALL: Duration = Duration::from_secs(1_700_000_000);

    fn moment(monotonic: Duration, step_ns: i64) -> ClockPair {
        let wall = (WALL + monotonic).as_nanos() as i128 + i128::from(step_ns);
        ClockPair {
            monotonic,
            wall: Duration::from_nanos(wall as u64),
            uncertainty: Duration::from_micros(1),
        }
    }

    #[test]
    fn a_stamp_stands_where_the_packet_came() {
        let sent = moment(Duration::from_millis(10), 0);
        let read = moment(Duration::from_millis(41), 0);
        let stamp = WALL + Duration::from_millis(40);
        assert_eq!(stamp_to_monotonic(stamp, &sent, &read), Some(Duration::from_millis(40)));
    }

    #[test]
    fn a_stamp_before_the_sending_or_after_the_reading_is_none() {
        let sent = moment(Duration::from_millis(10), 0);
        let read = moment(Duration::from_millis(41), 0);
        for at_ms in [0, 9, 42, 4000] {
            let stamp = WALL + Duration::from_millis(at_ms);
            assert_eq!(stamp_to_monotonic(stamp, &sent, &read), None, "{at_ms}");
        }
    }

    #[test]
    fn two_readings_of_this_host_run_alike() {
        let epoch = Instant::now();
        let (first, second) = (ClockPair::now(epoch), ClockPair::now(epoch));
        assert!(second.monotonic >= first.monotonic);
        assert!(first.agrees_with(&second) || second.wall < first.wall);
    }

    proptest! {
        /// However the wall clock is set, no time is negative, and none is off by more than the
        /// undetectable difference of two clocks.
        #[test]
        fn a_step_never_makes_a_round_trip_short(
            (rtt_us, read_us) in (1_u64..500_000, 0_u64..20_000),
            step_at_us in 0_u64..520_000,
            step_ns in prop_oneof![-5_000_000_000_i64..5_000_000_000, -200_000_i64..200_000],
        ) {
            let at = |us| Duration::from_micros(us);
            let stepped = |us: u64| if us >= step_at_us { step_ns } else { 0 };
            let sent = moment(at(0), stepped(0));
            let came = moment(at(rtt_us), stepped(rtt_us));
            let read = moment(at(rtt_us + read_us), stepped(rtt_us + read_us));
            let unnoticed = Duration::from_micros(22) + at(rtt_us + read_us) * 500 / 1_000_000;
            if let Some(placed) = stamp_to_monotonic(came.wall, &sent, &read) {
                prop_assert!(placed.abs_diff(at(rtt_us)) <= unnoticed, "{placed:?}");
                prop_assert!(placed <= read.monotonic);
            }
        }
    }
}
