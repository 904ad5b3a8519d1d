//! Where things may stand, and what every file must say.

use super::Breach;
use super::source::{Source, identifiers};
use crate::checkout::SourceFile;

const SYS: &str = "crates/longhaul-sys/";
/// How far above an `unsafe` block its reason may start.
const SAFETY_LINES_ABOVE: usize = 8;

fn breach_at_word(
    file: &SourceFile,
    source: &Source,
    word: &str,
    breach: (&'static str, &str),
) -> Vec<Breach> {
    let (rule, why) = breach;
    source
        .numbered()
        .filter(|(_, line)| identifiers(line).any(|(_, found)| found == word))
        .map(|(line, _)| Breach::error(&file.path, line, rule, why))
        .collect()
}

/// Memory safety is judged in one crate.
pub fn unsafe_stays_in_sys(file: &SourceFile, source: &Source) -> Vec<Breach> {
    if file.path.starts_with(SYS) {
        return vec![];
    }
    let breach = (
        "unsafe",
        "unsafe code stands in longhaul-sys only; add the call there",
    );
    breach_at_word(file, source, "unsafe", breach)
}

/// Every unsafe block names the invariant that makes it sound.
pub fn unsafe_says_why_it_is_safe(file: &SourceFile, source: &Source) -> Vec<Breach> {
    let blocks = source
        .numbered()
        .filter(|(_, line)| line.contains("unsafe {"));
    blocks
        .filter(|&(line, _)| {
            let from = line.saturating_sub(SAFETY_LINES_ABOVE + 1);
            !source.lines[from..line]
                .iter()
                .any(|text| text.contains("SAFETY:"))
        })
        .map(|(line, _)| {
            Breach::error(
                &file.path,
                line,
                "safety",
                "say `// SAFETY:` and why it holds",
            )
        })
        .collect()
}

/// Only one crate speaks the kernel's C names.
pub fn libc_stays_in_sys(file: &SourceFile, source: &Source) -> Vec<Breach> {
    if file.path.starts_with(SYS) {
        return vec![];
    }
    let breach = (
        "libc",
        "libc is known to longhaul-sys only; give the call a typed function there",
    );
    breach_at_word(file, source, "libc", breach)
}

/// The compiler holds what the first rule looks for.
pub fn crate_roots_forbid_unsafe(file: &SourceFile, source: &Source) -> Vec<Breach> {
    let is_root = file.path.starts_with("crates/") && file.path.ends_with("/src/lib.rs");
    if !is_root || file.path.starts_with(SYS) {
        return vec![];
    }
    let forbids = source
        .code
        .iter()
        .any(|line| line.trim() == "#![forbid(unsafe_code)]");
    if forbids {
        return vec![];
    }
    vec![Breach::error(
        &file.path,
        1,
        "unsafe",
        "a crate root says `#![forbid(unsafe_code)]`",
    )]
}

/// A file starts with the question that it answers.
pub fn modules_say_what_they_answer(file: &SourceFile, source: &Source) -> Vec<Breach> {
    let excused = file.is_test() || file.path.ends_with("build.rs");
    let first = source
        .lines
        .iter()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    if excused || first.is_some_and(|line| line.starts_with("//!")) {
        return vec![];
    }
    vec![Breach::error(
        &file.path,
        1,
        "module-header",
        "start with `//!`: what this file answers",
    )]
}

const ANALYSIS: &str = "crates/longhaul-analysis/src/";
/// A cause says how one would know it and how one would not.
const OF_A_CAUSE: &[&str] = &[
    "We would see:",
    "Refuted by:",
    "Needs:",
    "To do:",
    "Wrong when:",
];
/// A method says where it comes from, what its numbers are, how far off they are, and when wrong.
const OF_A_METHOD: &[&str] = &["Source:", "Units:", "Error:", "Wrong when:"];
/// Tells of a result, and finds none.
const NO_METHOD: &[&str] = &["throughput/limiter_text.rs"];

/// Whoever doubts a number finds in the file's header what it rests on.
pub fn analysis_says_what_it_rests_on(file: &SourceFile, source: &Source) -> Vec<Breach> {
    let Some(inner) = file.path.strip_prefix(ANALYSIS) else {
        return vec![];
    };
    if file.is_test() || NO_METHOD.contains(&inner) {
        return vec![];
    }
    let header: Vec<&str> = source
        .lines
        .iter()
        .map(String::as_str)
        .take_while(|line| line.starts_with("//!"))
        .collect();
    let missing = |labels: &'static [&'static str]| {
        let lacks = |label: &&&str| !header.iter().any(|line| line.contains(**label));
        labels
            .iter()
            .filter(lacks)
            .map(|label| format!("the header does not say `{label}`"))
    };
    match inner.split_once('/').map(|(folder, _)| folder) {
        Some("diagnose") => missing(OF_A_CAUSE)
            .map(|why| Breach::error(&file.path, 1, "cause-header", why))
            .collect(),
        Some("limit" | "stats" | "throughput") => missing(OF_A_METHOD)
            .map(|why| Breach::error(&file.path, 1, "method-header", why))
            .collect(),
        _ => vec![],
    }
}

/// What is not done is an issue, not a comment; a lint that is wrong here says why.
pub fn nothing_is_left_for_later(file: &SourceFile, source: &Source) -> Vec<Breach> {
    let in_code = [
        ("#[allow(", "use `#[expect(…, reason = \"…\")]`"),
        ("#![allow(", "use `#![expect(…, reason = \"…\")]`"),
        ("#[ignore", "no test passes by not running"),
        ("todo!(", "finish it or leave it out"),
        ("unimplemented!(", "finish it or leave it out"),
        ("dbg!(", "leave no traces of debugging"),
    ];
    let in_prose = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ];
    let code = source.numbered().flat_map(|(line, text)| {
        let hits = in_code.iter().filter(move |(mark, _)| text.contains(mark));
        hits.map(move |(_, why)| (line, (*why).to_owned()))
    });
    let prose = source.lines.iter().enumerate().flat_map(|(index, text)| {
        let hits = in_prose
            .iter()
            .filter(move |mark| identifiers(text).any(|(_, w)| w == **mark));
        hits.map(move |mark| (index + 1, format!("`{mark}`: finish it, or write an issue")))
    });
    code.chain(prose)
        .map(|(line, why)| Breach::error(&file.path, line, "left-for-later", why))
        .collect()
}

/// The checkout works wherever it lies.
pub fn no_path_of_one_machine(file: &SourceFile) -> Vec<Breach> {
    let paths = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/tmp/", "target"),
        concat!("/ho", "me/"),
    ];
    // `stage/root/` is a folder of the checkout.
    let begins_path = |text: &str, at: usize| !text[..at].ends_with(char::is_alphanumeric);
    let names = |text: &str, path| {
        text.match_indices(path)
            .any(|(at, _)| begins_path(text, at))
    };
    let lines = file.text.lines().enumerate();
    lines
        .filter(|(_, text)| paths.iter().any(|path| names(text, *path)))
        .map(|(index, _)| {
            Breach::error(
                &file.path,
                index + 1,
                "machine-path",
                "a path of one machine",
            )
        })
        .collect()
}
