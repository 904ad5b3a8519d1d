//! Rates, in bit/s.

use super::ParseUnitError;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

/// A rate in bit/s, with decimal prefixes only. Computed from bytes and a duration once, at the
/// end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// The unit of all rates in the text of this process, as selected by iperf3's `-f`.
static TEXT_UNIT: OnceLock<TextRateUnit> = OnceLock::new();

/// A unit of rates in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRateUnit {
    pub name: &'static str,
    /// The rate of one unit, in bit/s.
    pub bps: u64,
}

impl TextRateUnit {
    /// Returns the unit of a letter of iperf3's `-f`: bit/s with powers of 1000 for `k`, `m`, `g` and
    /// `t`, bytes per second with powers of 1024 for their capitals.
    pub fn from_letter(letter: &str) -> Option<TextRateUnit> {
        let (name, bps) = match letter {
            "k" => ("kbit/s", 1_000),
            "m" => ("Mbit/s", 1_000_000),
            "g" => ("Gbit/s", 1_000_000_000),
            "t" => ("Tbit/s", 1_000_000_000_000),
            "K" => ("KiB/s", 8 << 10),
            "M" => ("MiB/s", 8 << 20),
            "G" => ("GiB/s", 8 << 30),
            "T" => ("TiB/s", 8 << 40),
            _ => return None,
        };
        Some(TextRateUnit { name, bps })
    }

    /// Makes this the unit of all rates in the text of this process. Only the first call counts.
    pub fn select(self) {
        let _ = TEXT_UNIT.set(self);
    }

    /// Returns the selected unit; without one, each rate has the unit that fits.
    pub fn selected() -> Option<TextRateUnit> {
        TEXT_UNIT.get().copied()
    }

    fn format(self, rate: Rate) -> String {
        format!("{} {}", super::format_significant(rate.0 as f64 / self.bps as f64), self.name)
    }
}

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
        if let Some(unit) = TextRateUnit::selected() {
            return f.pad(&unit.format(*self));
        }
        let value = self.0 as f64;
        let text = STEPS.iter().find(|(size, _)| value >= *size).map_or_else(
            || format!("{} bit/s", self.0),
            |(size, name)| format!("{} {name}", super::format_significant(value / size)),
        );
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_of_iperf3_are_units_of_bits_and_of_bytes() {
        let rate = Rate::bits_per_second(9_412_345_678);
        for (letter, text) in [
            ("k", "9412345.7 kbit/s"),
            ("m", "9412.3 Mbit/s"),
            ("g", "9.412 Gbit/s"),
            ("t", "0.009 Tbit/s"),
            ("M", "1122 MiB/s"),
            ("G", "1.096 GiB/s"),
        ] {
            let unit = TextRateUnit::from_letter(letter).expect("a unit");
            assert_eq!(unit.format(rate), text);
        }
        assert_eq!(TextRateUnit::from_letter("x"), None);
    }
}
