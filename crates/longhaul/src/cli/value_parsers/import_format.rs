//! Parses formats of other programs, and names of their hosts.

use longhaul_import::{FORMATS, ImportFormat, sanitize_text};

pub fn parse_import_format(text: &str) -> Result<ImportFormat, String> {
    let known = FORMATS.into_iter().find(|format| format.name() == text);
    known.ok_or_else(|| {
        let words: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
        format!("expected one of {}", words.join(", "))
    })
}

/// Parses a host name: not empty, short, and without control characters.
pub fn parse_host_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || sanitize_text(text) != text {
        return Err("expected a name of at most 255 characters, without control characters".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_their_words_and_names_are_held_to_be_harmless() {
        for format in FORMATS {
            assert_eq!(parse_import_format(format.name()), Ok(format));
        }
        let refused = parse_import_format("netperf").expect_err("not known");
        assert!(refused.contains("iperf3-json"), "{refused}");
        assert_eq!(parse_host_name("far.example.net"), Ok("far.example.net".into()));
        for bad in ["", " ", "\u{1b}[2J", &"x".repeat(256)] {
            assert!(parse_host_name(bad).is_err(), "{bad:?}");
        }
    }
}
