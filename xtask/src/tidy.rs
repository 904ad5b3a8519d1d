//! Checks of form that neither the compiler nor clippy makes, for `cargo xtask tidy`.
//!
//! `cargo test` makes them as well (`tests/tidy.rs`).
//!
//! Wrong when: items or texts are made by macros of our own; `syn` expands nothing.

use crate::checkout::{self, SourceFile};
use crate::names::{CodeCensus, EntryKind};
use crate::{BenchName, DevelopmentTask, TaskResult};
use clap::{CommandFactory, ValueEnum};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Bare participles, which say nothing about a type.
const PARTICIPLES: [&str; 24] = [
    "Asked", "Begun", "Came", "Closed", "Ended", "Found", "Given", "Heard", "Held", "Judged",
    "Kept", "Known", "Laid", "Left", "Made", "Moved", "Ran", "Said", "Seen", "Shown", "Taken",
    "Told", "Tried", "Used",
];
/// Names of folders and files that do not say what they hold.
const VAGUE_MODULES: [&str; 7] = ["utils", "util", "common", "helpers", "helper", "misc", "types"];
/// Words that texts for people avoid, each with its replacement.
const AVOIDED_WORDS: [(&str, &str); 6] = [
    ("stranger", "anonymous client"),
    ("strangers", "anonymous clients"),
    ("nobody", "no one, or name who"),
    ("whoever", "the user, the client, …"),
    ("sent again", "retransmitted"),
    ("left to the kernel", "autotuned"),
];
/// Words of which the name of an integer in a report needs one: its unit, or what it counts.
const UNITS: &str = "bytes us ns mm bps permille millicycles cycles 1000s segments packets datagrams \
                     connections \
                     duplicates errors streams threads files folders calls cores timeouts shift index \
                     version state dscp lost order seen delivered core ce hops ttl sent arrived \
                     overflowed reordered discarded flows system number label class samples port probes \
                     pid run cells cell repeats seed step retransmits minute settings transfers paths \
                     readers writers workers";
/// Structs whose field in the report names the unit of all their fields.
const UNIT_IN_PARENT: [&str; 3] = ["LoadedRtt", "PathRtt", "ChangedHops"];
const REPORT_FOLDER: &str = "crates/longhaul-model/src/report/v1";
const ANALYSIS_FOLDER: &str = "crates/longhaul-analysis/src/";
/// Labels of the header of a cause.
const CAUSE_LABELS: [&str; 5] = ["We would see:", "Refuted by:", "Needs:", "To do:", "Wrong when:"];
/// Labels of the header of a method.
const METHOD_LABELS: [&str; 4] = ["Source:", "Units:", "Error:", "Wrong when:"];
/// Files in folders of methods that only write text.
const TEXT_ONLY: [&str; 1] = ["throughput/limiter_text.rs"];

/// A rule that is broken at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormBreach {
    pub path: String,
    /// From 1; 0 for the whole file.
    pub line: usize,
    pub text: String,
}

impl FormBreach {
    pub fn new(path: &str, line: usize, text: impl Into<String>) -> FormBreach {
        FormBreach { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for FormBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// Prints all breaches; fails if there is one.
pub fn run() -> TaskResult {
    let breaches = find_breaches(&checkout::find_root())?;
    for breach in &breaches {
        println!("{breach}");
    }
    if breaches.is_empty() {
        println!("tidy: no rule is broken");
        return Ok(());
    }
    Err(format!("{} rules of form are broken", breaches.len()))
}

/// Returns all breaches in the checkout at `root`, by file and line.
pub fn find_breaches(root: &Path) -> Result<Vec<FormBreach>, String> {
    let files = checkout::list_files(root)?;
    let census = CodeCensus::read(&files)?;
    let mut breaches: Vec<FormBreach> = files.iter().flat_map(check_file).collect();
    breaches.extend(check_entries(&census));
    breaches.extend(check_pages(&files));
    breaches.extend(check_scripts(&files));
    breaches.sort();
    Ok(breaches)
}

fn check_file(file: &SourceFile) -> Vec<FormBreach> {
    let mut breaches = check_machine_paths(file);
    if file.has_extension("rs") {
        breaches.extend(check_module_name(file));
        if !file.is_test() && !file.path.ends_with("build.rs") {
            breaches.extend(check_header(file));
        }
    }
    if file.path.starts_with("crates/") && file.has_extension("txt") && !file.is_test() {
        let avoided = check_literal(&file.text).into_iter();
        breaches.extend(avoided.map(|why| FormBreach::new(&file.path, 0, why)));
    }
    breaches
}

/// Checks that the checkout works wherever it lies.
fn check_machine_paths(file: &SourceFile) -> Vec<FormBreach> {
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    // A relative path may contain a folder of that name.
    let begins_path = |text: &str, at: usize| !text[..at].ends_with(char::is_alphanumeric);
    let names_path = |text: &str| {
        let mut hits = paths.iter().flat_map(|path| text.match_indices(path));
        hits.any(|(at, _)| begins_path(text, at))
    };
    let lines = file.text.lines().enumerate().filter(|(_, text)| names_path(text));
    lines
        .map(|(index, _)| FormBreach::new(&file.path, index + 1, "a path of one machine"))
        .collect()
}

fn check_module_name(file: &SourceFile) -> Option<FormBreach> {
    let stem = file.path.trim_end_matches(".rs");
    let vague = stem.split('/').find(|part| VAGUE_MODULES.contains(part))?;
    Some(FormBreach::new(&file.path, 0, format!("`{vague}` does not say what it holds")))
}

/// Checks that a file says what it holds, and an analysis what it rests on.
fn check_header(file: &SourceFile) -> Vec<FormBreach> {
    let is_text = |line: &&str| !line.trim().is_empty() && !line.starts_with("#![");
    let lines = file.text.lines().filter(is_text);
    let header: Vec<&str> = lines.take_while(|line| line.starts_with("//!")).collect();
    if header.is_empty() {
        return vec![FormBreach::new(&file.path, 1, "no `//!` comment says what this file holds")];
    }
    let inner = file.path.strip_prefix(ANALYSIS_FOLDER).unwrap_or_default();
    let labels: &[&str] = match inner.split_once('/') {
        _ if TEXT_ONLY.contains(&inner) => &[],
        Some(("diagnose", _)) => &CAUSE_LABELS,
        Some(("limit" | "stats" | "throughput", _)) => &METHOD_LABELS,
        _ => &[],
    };
    let missing = labels.iter().filter(|label| !header.iter().any(|line| line.contains(**label)));
    missing
        .map(|label| FormBreach::new(&file.path, 1, format!("the header lacks `{label}`")))
        .collect()
}

/// Checks every name and text of the code.
fn check_entries(census: &CodeCensus) -> Vec<FormBreach> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut breaches = Vec::new();
    for entry in &census.entries {
        let texts = match &entry.kind {
            EntryKind::Type => {
                let other = first.insert(&entry.text, &entry.path);
                check_type_name(&entry.text, other)
            }
            EntryKind::Literal if entry.path.starts_with("crates/") => check_literal(&entry.text),
            EntryKind::Field { owner, type_text } if entry.path.starts_with(REPORT_FOLDER) => {
                check_report_field(&entry.text, owner, type_text).into_iter().collect()
            }
            EntryKind::FreeFunction | EntryKind::Literal | EntryKind::Field { .. } => Vec::new(),
        };
        breaches.extend(texts.into_iter().map(|it| FormBreach::new(&entry.path, entry.line, it)));
    }
    breaches
}

/// Checks that a type is found by its name: unique in the workspace, and not a bare participle.
fn check_type_name(name: &str, other: Option<&str>) -> Vec<String> {
    let is_participle = PARTICIPLES.contains(&name);
    let participle = is_participle.then(|| format!("`{name}` is a bare participle"));
    let shared = other.map(|other| format!("`{name}` is the name of a type in {other} too"));
    participle.into_iter().chain(shared).collect()
}

/// Checks a text for people against the words to avoid.
fn check_literal(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(|c: char| !c.is_alphabetic()).collect();
    let text = format!(" {} ", words.join(" ").to_lowercase());
    let avoided = AVOIDED_WORDS.iter().filter(|(word, _)| text.contains(&format!(" {word} ")));
    avoided.map(|(word, instead)| format!("`{word}` in a text: say {instead}")).collect()
}

/// Checks that the name of an integer in a report gives its unit.
fn check_report_field(name: &str, owner: &str, type_text: &str) -> Option<String> {
    let integers = ["u64", "u32", "u16", "u8", "i64", "i32"];
    let unnamed = integers.iter().any(|it| type_text.contains(it))
        && !type_text.contains("Map <")
        && !name.split('_').any(|part| UNITS.split(' ').any(|unit| unit == part))
        && !UNIT_IN_PARENT.contains(&owner);
    unnamed.then(|| format!("`{name}` is an integer without a unit in its name"))
}

/// Folders whose files pages name.
const FOLDERS: &[&str] =
    &["crates/", "xtask/", "bench/", "scripts/", "docs/", "fixtures/", "fuzz/"];
/// Folders whose files shell scripts read.
const SCRIPT_FOLDERS: &[&str] = &["crates/", "contrib/", "packaging/"];

/// Returns all breaches in the Markdown pages.
pub fn check_pages(files: &[SourceFile]) -> Vec<FormBreach> {
    let targets = make_targets(files);
    let lines = prose(files).flat_map(|(file, line, text)| {
        let faults = check_line(files, &targets, &file.path, text);
        faults.into_iter().map(move |why| FormBreach::new(&file.path, line, why))
    });
    lines.collect()
}

/// Returns the files of the checkout that shell scripts name and that do not exist.
pub fn check_scripts(files: &[SourceFile]) -> Vec<FormBreach> {
    let scripts = files.iter().filter(|file| file.has_extension("sh"));
    let lines = scripts.flat_map(|file| {
        let words = |(index, text): (usize, &str)| {
            let words = text.split([' ', '\t', '"', '\'', '=', ';', '(', ')']);
            let is_missing = |word: &&str| {
                SCRIPT_FOLDERS.iter().any(|folder| word.starts_with(folder))
                    && !word.contains(['$', '*', '{'])
                    && !exists(files, word)
            };
            let breach =
                |word| FormBreach::new(&file.path, index + 1, format!("there is no `{word}`"));
            words.filter(is_missing).map(breach).collect::<Vec<_>>()
        };
        file.text.lines().enumerate().flat_map(words)
    });
    lines.collect()
}

/// Checks that relative links lead to files or folders of the checkout, that paths in backticks exist,
/// and tasks, benches and make targets.
fn check_line(files: &[SourceFile], targets: &[&str], page: &str, text: &str) -> Vec<String> {
    let leads_nowhere = |link: &&str| {
        let is_relative = !link.contains("://") && !link.starts_with(['#', '<']);
        is_relative && !exists(files, &resolve(page, link.split('#').next().unwrap_or(link)))
    };
    let is_missing = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && !span.contains([' ', '*', '{'])
            && !exists(files, span)
    };
    let links = links(text).filter(leads_nowhere).map(|link| format!("`{link}` leads nowhere"));
    let paths = code_spans(text).filter(is_missing).map(|span| format!("there is no `{span}`"));
    let commands = code_spans(text).filter_map(|span| unknown_command(span, targets));
    links.chain(paths).chain(commands).collect()
}

fn prose(files: &[SourceFile]) -> impl Iterator<Item = (&SourceFile, usize, &str)> {
    let pages = files.iter().filter(|file| file.has_extension("md"));
    pages.flat_map(|file| file.text.lines().enumerate().map(move |(i, text)| (file, i + 1, text)))
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
}

fn exists(files: &[SourceFile], path: &str) -> bool {
    let folder = format!("{}/", path.trim_end_matches('/'));
    files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
}

/// Returns the path that `link` means in the page at `page`.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn unknown_command(span: &str, targets: &[&str]) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", "bench", name, ..]
            if is_name(name) && BenchName::from_str(name, false).is_err() =>
        {
            Some(format!("there is no bench `{name}`"))
        }
        ["cargo", "xtask", name, ..]
            if is_name(name) && DevelopmentTask::command().find_subcommand(name).is_none() =>
        {
            Some(format!("there is no task `{name}`"))
        }
        ["make", target, ..] if is_name(target) && !targets.contains(target) => {
            Some(format!("the Makefile has no target `{target}`"))
        }
        _ => None,
    }
}

/// Returns whether a word is a name and not a placeholder such as `…` or `NAME`.
fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Returns the code between backticks, and lines after a prompt.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.split('`').skip(1).step_by(2);
    let prompt = text.trim_start().strip_prefix("$ ");
    spans.chain(prompt)
}

fn make_targets(files: &[SourceFile]) -> Vec<&str> {
    let makefile = files.iter().find(|file| file.path == "Makefile");
    let lines = makefile.into_iter().flat_map(|file| file.text.lines());
    lines
        .filter(|line| !line.starts_with(['\t', '.', '#']))
        .filter_map(|line| line.split_once(':'))
        .map(|(target, _)| target)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn breaches(path: &str, text: &str) -> Vec<String> {
        let file = file(path, text);
        let census = CodeCensus::read(std::slice::from_ref(&file)).expect("Rust");
        let mut found = check_file(&file);
        found.extend(check_entries(&census));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_breach_names_its_file_and_line() {
        let probe = "crates/longhaul-probe/src/pump.rs";
        for (path, text, expected) in [
            (probe, "fn f() {}", "pump.rs:1: no `//!` comment"),
            (probe, "//! Q.\nstruct Seen;", "pump.rs:2: `Seen` is a bare participle"),
            (
                probe,
                "//! Q.\nfn f() { print!(\"a stranger\"); }",
                "pump.rs:2: `stranger` in a text",
            ),
            (
                probe,
                "//! Q.\nmod a { struct FirstRow; }\nmod b { struct FirstRow; }",
                "pump.rs:3: `FirstRow` is the name of a type",
            ),
            ("crates/longhaul-probe/src/utils.rs", "//! Q.", "`utils` does not say"),
            (
                "crates/longhaul-analysis/src/stats/mean.rs",
                "//! Q.\n//! Source: s\n//! Error: e. Wrong when: w",
                "the header lacks `Units:`",
            ),
            (
                "crates/longhaul-analysis/src/diagnose/cause.rs",
                "//! Q.\n//! We would see: a. Refuted by: b.\n//! Needs: c. Wrong when: d",
                "the header lacks `To do:`",
            ),
            (
                "crates/longhaul-model/src/report/v1/plan.rs",
                "//! Q.\npub struct Plan {\n    pub rate: u64,\n    pub rate_bps: Option<u64>,\n}",
                "plan.rs:3: `rate` is an integer without a unit",
            ),
        ] {
            let found = breaches(path, text);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn a_test_file_needs_no_header() {
        assert_eq!(breaches("crates/longhaul-lab/tests/truth.rs", "fn f() {}"), [""; 0]);
    }
}

#[cfg(test)]
mod docs_tests {
    use super::*;

    #[test]
    fn pages_may_name_only_what_exists() {
        let page =
            "See [a](docs/a.md) and [b](docs/b.md).\n\n`cargo xtask bench magic` and `make demo`";
        let files = [
            ("Makefile", ".PHONY: demo\ndemo:\n\tcargo run demo\n"),
            ("README.md", page),
            ("docs/a.md", "[up](../README.md#x)"),
        ]
        .map(|(path, text)| SourceFile { path: path.to_owned(), text: text.to_owned() });
        let lines: Vec<usize> = check_pages(&files).iter().map(|it| it.line).collect();
        assert_eq!(lines, [1, 3]);
    }

    #[test]
    fn scripts_may_name_only_files_that_exist() {
        let script = "cat contrib/a.toml \\\n  contrib/b.toml >\"$out\"\ncp contrib/*.toml x\n";
        let files = [("pack.sh", script), ("contrib/a.toml", "")]
            .map(|(path, text)| SourceFile { path: path.to_owned(), text: text.to_owned() });
        let lines: Vec<usize> = check_scripts(&files).iter().map(|it| it.line).collect();
        assert_eq!(lines, [2]);
    }
}
