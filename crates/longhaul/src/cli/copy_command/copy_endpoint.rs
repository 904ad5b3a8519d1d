//! SRC and DST of a copy as typed: a local file, a remote name, or a stream. No I/O.

use crate::cli::value_parsers;
use std::path::PathBuf;

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEndpoint {
    Local(PathBuf),
    Remote {
        host: String,
        name: String,
    },
    /// Standard input or output.
    Stream,
}

/// Parses `file`, `parse_host:name`, `[v6]:name` or `-`. A colon after a slash belongs to a file name.
pub fn parse_copy_endpoint(text: &str) -> Result<CopyEndpoint, String> {
    match text {
        "" => return Err("expected FILE, HOST:NAME or -".to_owned()),
        "-" => return Ok(CopyEndpoint::Stream),
        _ => {}
    }
    let before_slash = text.split('/').next().unwrap_or_default();
    let colon = match (text.strip_prefix('['), text.find("]:")) {
        (Some(_), Some(end)) => Some(end + 1),
        _ => before_slash.find(':'),
    };
    let Some(colon) = colon else {
        return Ok(CopyEndpoint::Local(PathBuf::from(text)));
    };
    let (host, name) = (&text[..colon], &text[colon + 1..]);
    Ok(CopyEndpoint::Remote { host: value_parsers::parse_host(host)?, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_colon_before_the_first_slash_names_a_host() {
        let there = |host: &str, name: &str| CopyEndpoint::Remote {
            host: host.to_owned(),
            name: name.to_owned(),
        };
        let here = |path: &str| CopyEndpoint::Local(PathBuf::from(path));
        for (text, end) in [
            ("-", CopyEndpoint::Stream),
            ("a", here("a")),
            ("./a:b", here("./a:b")),
            ("/x/a:b", here("/x/a:b")),
            ("far:a/b", there("far", "a/b")),
            ("far:", there("far", "")),
            ("[2001:db8::1]:a:b", there("2001:db8::1", "a:b")),
        ] {
            assert_eq!(parse_copy_endpoint(text), Ok(end), "{text}");
        }
        for text in ["", ":a"] {
            assert!(parse_copy_endpoint(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}|[\\[\\]:/a]{0,12}") {
            let _ = parse_copy_endpoint(&text);
        }
    }
}
