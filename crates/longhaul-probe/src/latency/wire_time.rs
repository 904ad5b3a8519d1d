//! Timestamps and error estimates in test packets (RFC 4656, section 4.1.2; RFC 8186).
//!
//! Times are nanoseconds since 1970, with seconds modulo 2³²: until 2106.

use std::time::Duration;

/// From 1900, the epoch of NTP, to 1970.
const NTP_EPOCH_S: u32 = 2_208_988_800;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Bits of the fraction of a second.
const FRACTION_BITS: u32 = 32;

/// The format of a timestamp, both of 64 bits with 32 bits of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampFormat {
    /// NTP: seconds since 1900, and their fraction.
    Ntp,
    /// Truncated PTPv2: seconds since 1970, and nanoseconds.
    Ptp,
}

/// Encodes a time in the format of NTP.
pub fn encode_ntp_time(unix_ns: u64) -> u64 {
    let seconds = (unix_ns / NANOS_PER_SECOND) as u32;
    // Rounded up, so that decoding gives the same nanosecond.
    let fraction = ((unix_ns % NANOS_PER_SECOND) << FRACTION_BITS).div_ceil(NANOS_PER_SECOND);
    u64::from(seconds.wrapping_add(NTP_EPOCH_S)) << FRACTION_BITS | fraction
}

/// Decodes a timestamp to nanoseconds since 1970. That of PTP counts in the timescale of its clock,
/// which is usually TAI.
pub fn decode_time(raw: u64, format: TimestampFormat) -> u64 {
    let (seconds, fraction) = ((raw >> FRACTION_BITS) as u32, raw & u64::from(u32::MAX));
    let (seconds, nanos) = match format {
        TimestampFormat::Ntp => {
            (seconds.wrapping_sub(NTP_EPOCH_S), (fraction * NANOS_PER_SECOND) >> FRACTION_BITS)
        }
        TimestampFormat::Ptp => (seconds, fraction.min(NANOS_PER_SECOND - 1)),
    };
    u64::from(seconds) * NANOS_PER_SECOND + nanos
}

/// The error of a clock, as its host states it in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// The clock follows UTC by an external source.
    pub synchronized: bool,
    /// The format of the packet's own timestamps.
    pub format: TimestampFormat,
    /// Zero: the host states none.
    pub error: Duration,
}

impl ErrorEstimate {
    const SYNCHRONIZED: u16 = 0x8000;
    const PTP: u16 = 0x4000;
    const MAX_SCALE: u32 = 63;

    /// Encodes the estimate: multiplier × 2^(scale − 32) seconds, rounded up, at least 2⁻³² s.
    pub fn encode(self) -> u16 {
        let units = (self.error.as_nanos() << FRACTION_BITS).div_ceil(NANOS_PER_SECOND.into());
        let mut multiplier = units.max(1);
        let mut scale = 0;
        while multiplier > 255 {
            multiplier = multiplier.div_ceil(2);
            scale += 1;
        }
        let flags = if self.synchronized { Self::SYNCHRONIZED } else { 0 }
            | if self.format == TimestampFormat::Ptp { Self::PTP } else { 0 };
        flags | (scale as u16) << 8 | multiplier as u16
    }

    pub fn decode(raw: u16) -> ErrorEstimate {
        let (scale, multiplier) = (u32::from(raw >> 8) & Self::MAX_SCALE, u128::from(raw & 0xff));
        let nanos = ((multiplier << scale) * u128::from(NANOS_PER_SECOND)) >> FRACTION_BITS;
        ErrorEstimate {
            synchronized: raw & Self::SYNCHRONIZED != 0,
            format: if raw & Self::PTP == 0 { TimestampFormat::Ntp } else { TimestampFormat::Ptp },
            error: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_those_of_the_rfcs() {
        // 2026-11-28T05:00:00.5Z.
        let unix_ns = 1_795_842_000_500_000_000;
        let ntp = (1_795_842_000 + 2_208_988_800_u64) << 32 | 0x8000_0000;
        assert_eq!(encode_ntp_time(unix_ns), ntp);
        assert_eq!(decode_time(ntp, TimestampFormat::Ntp), unix_ns);
        let ptp = (1_795_842_000 << 32) + 500_000_000;
        assert_eq!(decode_time(ptp, TimestampFormat::Ptp), unix_ns);
    }

    #[test]
    fn the_era_of_ntp_that_begins_in_2036_is_after_1970() {
        assert_eq!(decode_time(0, TimestampFormat::Ntp), 2_085_978_496_000_000_000);
    }

    #[test]
    fn an_estimate_is_a_multiplier_and_a_scale() {
        let second = ErrorEstimate::decode(0x8000 | 32 << 8 | 1);
        assert_eq!((second.synchronized, second.error), (true, Duration::from_secs(1)));
        assert_eq!(ErrorEstimate::decode(0x4000).format, TimestampFormat::Ptp);
        assert!(ErrorEstimate::decode(0x3fff).error > Duration::from_secs(1 << 33));
    }

    proptest! {
        #[test]
        fn every_time_comes_back(unix_ns in 0..u64::from(u32::MAX) * NANOS_PER_SECOND) {
            prop_assert_eq!(decode_time(encode_ntp_time(unix_ns), TimestampFormat::Ntp), unix_ns);
        }

            /// What a host states differs from its error by less than 1 %.
        #[test]
        fn an_error_keeps_its_size(error_ns in 100..u64::MAX / 4, synchronized in any::<bool>()) {
            let error = Duration::from_nanos(error_ns);
            let own = ErrorEstimate { synchronized, format: TimestampFormat::Ntp, error };
            let read = ErrorEstimate::decode(own.encode());
            prop_assert_eq!(read.synchronized, synchronized);
            let ratio = read.error.as_secs_f64() / error.as_secs_f64();
            prop_assert!((0.99..1.01).contains(&ratio), "{:?} for {:?}", read.error, error);
        }
    }
}
