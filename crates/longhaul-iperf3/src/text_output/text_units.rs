//! Formats amounts and rates with four characters: bytes in powers of 1024, bits of 1000.

/// The unit of a test's rates (`-f`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateFormat {
    /// Bits with an automatic prefix.
    #[default]
    Adaptive,
    /// Bytes with an automatic prefix.
    AdaptiveBytes,
    Bits(UnitPrefix),
    Bytes(UnitPrefix),
}

/// The exponent of 1000 (bits) or 1024 (bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitPrefix {
    Kilo = 1,
    Mega,
    Giga,
    Tera,
}

const PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];

impl RateFormat {
    /// Returns the unit for a letter of `-f`; `None` if the letter is invalid.
    pub fn from_letter(letter: char) -> Option<RateFormat> {
        let prefix = match letter.to_ascii_lowercase() {
            'k' => UnitPrefix::Kilo,
            'm' => UnitPrefix::Mega,
            'g' => UnitPrefix::Giga,
            't' => UnitPrefix::Tera,
            'a' if letter == 'a' => return Some(RateFormat::Adaptive),
            'a' => return Some(RateFormat::AdaptiveBytes),
            _ => return None,
        };
        Some(if letter.is_ascii_lowercase() {
            RateFormat::Bits(prefix)
        } else {
            RateFormat::Bytes(prefix)
        })
    }
}

/// Formats bytes, for example `1.43 GBytes`.
pub fn format_transfer(bytes: u64) -> String {
    format_scaled(bytes as f64, 1024.0, None, "Bytes")
}

/// Formats the amount per second, for example `6.13 Gbits`.
pub fn format_rate(unit: RateFormat, bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    match unit {
        RateFormat::Adaptive => format_scaled(bits, 1000.0, None, "bits"),
        RateFormat::AdaptiveBytes => format_scaled(bytes_per_second, 1024.0, None, "Bytes"),
        RateFormat::Bits(prefix) => format_scaled(bits, 1000.0, Some(prefix), "bits"),
        RateFormat::Bytes(prefix) => format_scaled(bytes_per_second, 1024.0, Some(prefix), "Bytes"),
    }
}

fn format_scaled(mut value: f64, step: f64, prefix: Option<UnitPrefix>, noun: &str) -> String {
    let mut power = 0;
    let most = prefix.map_or(PREFIXES.len() - 1, |prefix| prefix as usize);
    while power < most && (prefix.is_some() || value >= step) {
        value /= step;
        power += 1;
    }
    // 9.995 would be printed as 10.00, which has one digit too many.
    let places = match value {
        small if small < 9.995 => 2,
        medium if medium < 99.95 => 1,
        _ => 0,
    };
    format!("{value:4.places$} {}{noun}", PREFIXES[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_fit_in_four_places_as_3_12_shows_them() {
        for (bytes, text) in [
            (0, "0.00 Bytes"),
            (524_288, " 512 KBytes"),
            (1_047_552, "1023 KBytes"),
            (10_485_760, "10.0 MBytes"),
            (992_000_000, " 946 MBytes"),
            (1_535_000_000, "1.43 GBytes"),
            (3 << 50, "3072 TBytes"),
        ] {
            assert_eq!(format_transfer(bytes), text);
        }
    }

    #[test]
    fn rates_follow_the_letter_that_was_asked_for() {
        let shown = |letter: char| {
            let unit = RateFormat::from_letter(letter).expect("a unit");
            format_rate(unit, 732_250_000.0)
        };
        assert_eq!(shown('a'), "5.86 Gbits");
        assert_eq!(shown('k'), "5858000 Kbits");
        assert_eq!(shown('m'), "5858 Mbits");
        assert_eq!(shown('g'), "5.86 Gbits");
        assert_eq!(shown('t'), "0.01 Tbits");
        assert_eq!(shown('K'), "715088 KBytes");
        assert_eq!(shown('M'), " 698 MBytes");
        assert_eq!(shown('G'), "0.68 GBytes");
        assert_eq!(format_rate(RateFormat::Adaptive, 0.0), "0.00 bits");
        assert_eq!(RateFormat::from_letter('x'), None);
    }
}
