//! RTT and clock offset from exchanges on the idle control connection.
//!
//! The exchange with the minimum RTT had the least queueing: its offset is used, and half its RTT
//! bounds the error, however the path's delay is split between the directions. Wrong when the two
//! clocks run at different rates: 50 ppm are 0.5 ms in ten seconds.

use std::time::Duration;

/// The number of exchanges before a run.
pub const MAX_EXCHANGES: u32 = 8;
/// The interval between pings: they do not wait for answers, so that timing costs one round trip.
pub const PING_INTERVAL: Duration = Duration::from_millis(5);

/// The best exchange so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub rtt: Duration,
    /// The server's clock minus the client's, in microseconds.
    pub offset_us: i64,
}

impl ClockReading {
    /// Computes the reading from local send and receive times, and the server's clock in between.
    pub fn from_exchange(sent: Duration, responder_us: u64, received: Duration) -> ClockReading {
        let middle_us = (sent + received).as_micros() as i64 / 2;
        ClockReading {
            rtt: received.saturating_sub(sent),
            offset_us: (responder_us.min(i64::MAX as u64) as i64).saturating_sub(middle_us),
        }
    }

    #[must_use]
    pub fn better_of(self, other: Option<ClockReading>) -> ClockReading {
        match other {
            Some(other) if other.rtt <= self.rtt => other,
            _ => self,
        }
    }

    /// Returns half the width of the offset's uncertainty.
    pub fn error(self) -> Duration {
        self.rtt / 2
    }

    /// Converts a local time to the server's clock; zero if that clock was not running yet.
    pub fn to_server_us(self, here: Duration) -> u64 {
        let us = (here.as_micros() as i64).saturating_add(self.offset_us);
        u64::try_from(us).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_least_round_trip_gives_the_offset() {
        // The server's clock is 1000 ms ahead; 86 ms each way; the second reply waited 40 ms.
        let clean = ClockReading::from_exchange(ms(100), 1_186_000, ms(272));
        let queued = ClockReading::from_exchange(ms(200), 1_286_000, ms(412));
        let best = queued.better_of(Some(clean)).better_of(None);
        assert_eq!(best.rtt, ms(172));
        assert_eq!(best.offset_us, 1_000_000);
        assert_eq!(best.error(), ms(86));
        assert_eq!(best.to_server_us(ms(500)), 1_500_000);
    }

    #[test]
    fn a_lying_clock_neither_overflows_nor_panics() {
        let reading = ClockReading::from_exchange(ms(1), u64::MAX, ms(2));
        assert!(reading.to_server_us(ms(u64::from(u32::MAX))) > 0);
        let past = ClockReading::from_exchange(ms(5000), 0, ms(5000));
        assert_eq!(past.to_server_us(ms(1)), 0);
    }
}
