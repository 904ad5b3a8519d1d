//! SRC and DST of a copy as typed: a local file, a remote name, or a stream. No I/O.

use crate::cli::parse;
use std::path::PathBuf;

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEnd {
    Here(PathBuf),
    There {
        host: String,
        name: String,
    },
    /// Standard input or output.
    Stream,
}

/// Parses `file`, `host:name`, `[v6]:name` or `-`. A colon after a slash belongs to a file name.
pub fn parse(text: &str) -> Result<CopyEnd, String> {
    match text {
        "" => return Err("allowed is FILE, HOST:NAME or -".to_owned()),
        "-" => return Ok(CopyEnd::Stream),
        _ => {}
    }
    let before_slash = text.split('/').next().unwrap_or_default();
    let colon = match (text.strip_prefix('['), text.find("]:")) {
        (Some(_), Some(end)) => Some(end + 1),
        _ => before_slash.find(':'),
    };
    let Some(colon) = colon else {
        return Ok(CopyEnd::Here(PathBuf::from(text)));
    };
    let (host, name) = (&text[..colon], &text[colon + 1..]);
    Ok(CopyEnd::There {
        host: parse::host(host)?,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_colon_before_the_first_slash_names_a_host() {
        let there = |host: &str, name: &str| CopyEnd::There {
            host: host.to_owned(),
            name: name.to_owned(),
        };
        let here = |path: &str| CopyEnd::Here(PathBuf::from(path));
        for (text, end) in [
            ("-", CopyEnd::Stream),
            ("a", here("a")),
            ("./a:b", here("./a:b")),
            ("/x/a:b", here("/x/a:b")),
            ("far:a/b", there("far", "a/b")),
            ("far:", there("far", "")),
            ("[2001:db8::1]:a:b", there("2001:db8::1", "a:b")),
        ] {
            assert_eq!(parse(text), Ok(end), "{text}");
        }
        for text in ["", ":a"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}|[\\[\\]:/a]{0,12}") {
            let _ = parse(&text);
        }
    }
}
