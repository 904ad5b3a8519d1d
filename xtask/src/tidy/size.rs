//! How long functions and files may be.

use super::Breach;
use super::source::{Source, identifiers};
use crate::tree::File;

/// A function longer than this does more than one thing.
const FUNCTION_LINES_MAX: usize = 70;
/// A file longer than this should be split soon …
const FILE_LINES_WARNED: usize = 400;
/// … and one longer than this is not accepted.
const FILE_LINES_MAX: usize = 600;
/// A table-like `match` may be longer; it says so with this lint and a reason.
const LONG_ON_PURPOSE: &str = "expect(clippy::too_many_lines";

/// Functions are read in one look.
pub fn functions(file: &File, source: &Source) -> Vec<Breach> {
    let starts = source
        .numbered()
        .filter(|(_, line)| identifiers(line).any(|(_, w)| w == "fn"));
    starts
        .filter_map(|(line, _)| {
            let length = function_lines(source, line)?;
            let on_purpose = source.lines[line.saturating_sub(8)..line]
                .iter()
                .any(|text| text.contains(LONG_ON_PURPOSE));
            (length > FUNCTION_LINES_MAX && !on_purpose).then(|| {
                let why = format!("{length} lines, at most {FUNCTION_LINES_MAX}; name its phases");
                Breach::error(&file.path, line, "function-length", why)
            })
        })
        .collect()
}

/// Lines from `fn` to its closing brace; `None` when it has no body.
fn function_lines(source: &Source, first: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (line, code) in source.numbered().skip(first - 1) {
        for c in code.chars() {
            match c {
                ';' if depth == 0 => return None,
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && c == '}' {
                        return Some(line - first + 1);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

/// Files are read in one sitting.
pub fn files(file: &File, source: &Source) -> Vec<Breach> {
    let length = source.lines.len();
    let why = format!(
        "{length} lines; split it by subject (aim {FILE_LINES_WARNED}, at most {FILE_LINES_MAX})"
    );
    if length > FILE_LINES_MAX {
        vec![Breach::error(&file.path, length, "file-length", why)]
    } else if length > FILE_LINES_WARNED {
        vec![Breach::warning(&file.path, length, "file-length", why)]
    } else {
        vec![]
    }
}
