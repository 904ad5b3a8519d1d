//! Names of differentiated services code points.
//!
//! Source: RFC 2474 (CS), RFC 2597 (AF), RFC 3246 (EF), RFC 5865 (VOICE-ADMIT), RFC 8622 (LE).

const EXPECTED: &str = "expected 0 to 63, or a name: CS0 to CS7, AF11 to AF43, EF, LE, \
                        VOICE-ADMIT, BE";

/// Parses a code point by number (decimal or 0x) or name.
pub fn parse_dscp(text: &str) -> Result<u8, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    number
        .or_else(|| find_dscp_name(&text.to_ascii_uppercase()))
        .filter(|n| *n <= 63)
        .ok_or_else(|| EXPECTED.to_owned())
}

fn find_dscp_name(name: &str) -> Option<u8> {
    match name {
        "BE" | "DF" => return Some(0),
        "LE" => return Some(1),
        "EF" => return Some(46),
        "VA" | "VOICE-ADMIT" => return Some(44),
        _ => {}
    }
    let digit = |range: std::ops::RangeInclusive<u8>, c: Option<&u8>| {
        c.map(|c| c.wrapping_sub(b'0')).filter(|n| range.contains(n))
    };
    let bytes = name.as_bytes();
    match (name.get(..2)?, bytes.len()) {
        ("CS", 3) => Some(8 * digit(0..=7, bytes.get(2))?),
        ("AF", 4) => Some(8 * digit(1..=4, bytes.get(2))? + 2 * digit(1..=3, bytes.get(3))?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_the_standard_ones() {
        for (text, code) in [
            ("0", 0),
            ("63", 63),
            ("0x2e", 46),
            ("ef", 46),
            ("AF11", 10),
            ("af43", 38),
            ("CS1", 8),
            ("cs7", 56),
            ("le", 1),
            ("BE", 0),
        ] {
            assert_eq!(parse_dscp(text), Ok(code), "{text}");
        }
        for text in ["", "64", "-1", "AF44", "AF51", "CS8", "EFF", "é"] {
            assert!(parse_dscp(text).is_err(), "{text}");
        }
    }
}
