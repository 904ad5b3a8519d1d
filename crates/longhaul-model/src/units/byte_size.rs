//! Sizes of memory and payload.

use super::ParseUnitError;
use std::fmt;
use std::str::FromStr;

/// A number of bytes. Prints with IEC prefixes; parses `256K`, `64 KiB`, `1.5 MB`, `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

const EXPECTED: &str = "a size: a number with an optional K, M, G (powers of 1024), \
                        KiB, MiB, GiB, or kB, MB, GB (powers of 1000)";

impl From<Bytes> for u64 {
    fn from(bytes: Bytes) -> u64 {
        bytes.0
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let parse = || {
            let (value, unit) = super::split_unit(text)?;
            let factor = match unit.to_ascii_lowercase().as_str() {
                "" | "b" => 1.0,
                "k" | "ki" | "kib" => 1024.0,
                "m" | "mi" | "mib" => 1_048_576.0,
                "g" | "gi" | "gib" => 1_073_741_824.0,
                "t" | "ti" | "tib" => 1_099_511_627_776.0,
                "kb" => 1e3,
                "mb" => 1e6,
                "gb" => 1e9,
                "tb" => 1e12,
                _ => return None,
            };
            super::scale_to_u64(value, factor)
        };
        parse()
            .map(Bytes)
            .ok_or_else(|| ParseUnitError { text: text.to_owned(), expected: EXPECTED })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let text = STEPS.iter().find(|(size, _)| self.0 >= *size).map_or_else(
            || format!("{} B", self.0),
            |(size, name)| {
                format!("{} {name}", super::format_significant(self.0 as f64 / *size as f64))
            },
        );
        f.pad(&text)
    }
}
