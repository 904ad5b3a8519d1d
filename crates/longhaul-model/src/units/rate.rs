//! Rates, in bit/s.

use super::ParseUnitError;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A rate in bit/s, with decimal prefixes only. Computed from bytes and a duration once, at the
/// end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

const EXPECTED: &str = "a rate: a number with bit/s, Kbit/s, Mbit/s, Gbit/s, a bare K, M, G \
                        (powers of 1000 bit/s), or B/s, kB/s, MB/s, GB/s";

impl Rate {
    pub const fn bits_per_second(bits: u64) -> Self {
        Rate(bits)
    }

    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Returns the rate for `delivered` bytes in `elapsed`; `None` if no time passed.
    pub fn over(delivered: u64, elapsed: Duration) -> Option<Rate> {
        let bits = u128::from(delivered) * 8;
        let rate = (bits * 1_000_000_000).checked_div(elapsed.as_nanos())?;
        u64::try_from(rate).ok().map(Rate)
    }

    /// Returns the time for `bytes` at this rate; `None` at rate zero.
    pub fn time_for(self, bytes: u64) -> Option<Duration> {
        let nanos = (u128::from(bytes) * 8 * 1_000_000_000).checked_div(u128::from(self.0))?;
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// Returns the bytes carried in `time` (the bandwidth-delay product if `time` is an RTT);
    /// saturates.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bytes = u128::from(self.0).saturating_mul(time.as_nanos()) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl FromStr for Rate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let parse = || {
            let (value, unit) = super::split_unit(text)?;
            let lower = unit.to_ascii_lowercase();
            // `MB/s` is bytes; `Mb/s`, `Mbps`, `Mbit/s` and a bare `M` are bits.
            let bytes = unit.ends_with("B/s") || unit.ends_with("Bps");
            let factor = match lower
                .trim_end_matches("/s")
                .trim_end_matches("ps")
                .trim_end_matches("it")
                .trim_end_matches('b')
            {
                "" => 1.0,
                "k" => 1e3,
                "m" => 1e6,
                "g" => 1e9,
                "t" => 1e12,
                _ => return None,
            };
            super::scale_to_u64(value, if bytes { factor * 8.0 } else { factor })
        };
        parse()
            .map(Rate)
            .ok_or_else(|| ParseUnitError { text: text.to_owned(), expected: EXPECTED })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(f64, &str); 4] =
            [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
        let value = self.0 as f64;
        let text = STEPS.iter().find(|(size, _)| value >= *size).map_or_else(
            || format!("{} bit/s", self.0),
            |(size, name)| format!("{} {name}", super::format_significant(value / size)),
        );
        f.pad(&text)
    }
}
