//! What the documents promise: links, commands and pages that exist.

use super::Breach;
use crate::checkout::SourceFile;
use crate::{CHORES, bench};

/// Pages without which the house has no front door.
const HOUSE: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/benchmarks.md",
    "docs/protocol.md",
    "docs/report-v1.md",
    "docs/vocabulary.md",
];

/// Every page of `HOUSE` is there.
pub fn the_house_is_complete(files: &[SourceFile]) -> Vec<Breach> {
    HOUSE
        .iter()
        .filter(|page| !exists(files, page))
        .map(|page| Breach::error(page, 0, "house", "this page is missing"))
        .collect()
}

/// A relative link in a page names a file or folder of the checkout.
pub fn links_lead_somewhere(files: &[SourceFile]) -> Vec<Breach> {
    prose(files)
        .flat_map(|(file, line, text)| links(text).map(move |link| (file, line, link)))
        .filter(|(_, _, link)| !link.contains("://") && !link.starts_with(['#', '<']))
        .filter_map(|(file, line, link)| {
            let target = resolve(&file.path, link.split('#').next().unwrap_or(link));
            let why = format!("`{link}` leads nowhere");
            (!exists(files, &target)).then(|| Breach::error(&file.path, line, "link", why))
        })
        .collect()
}

/// A path of the checkout in backticks is one.
pub fn named_paths_exist(files: &[SourceFile]) -> Vec<Breach> {
    const FOLDERS: &[&str] = &["crates/", "xtask/", "docs/", "fixtures/", "fuzz/"];
    prose(files)
        .flat_map(|(file, line, text)| code_spans(text).map(move |span| (file, line, span)))
        .filter(|(_, _, span)| FOLDERS.iter().any(|folder| span.starts_with(folder)))
        .filter(|(_, _, span)| !span.contains([' ', '*', '{']) && !exists(files, span))
        .map(|(file, line, span)| {
            Breach::error(&file.path, line, "path", format!("there is no `{span}`"))
        })
        .collect()
}

fn prose(files: &[SourceFile]) -> impl Iterator<Item = (&SourceFile, usize, &str)> {
    let pages = files.iter().filter(|file| file.is_markdown());
    pages.flat_map(|file| {
        file.text
            .lines()
            .enumerate()
            .map(move |(i, text)| (file, i + 1, text))
    })
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link)
}

fn exists(files: &[SourceFile], path: &str) -> bool {
    let folder = format!("{}/", path.trim_end_matches('/'));
    files
        .iter()
        .any(|file| file.path == path || file.path.starts_with(&folder))
}

/// The path that `link` means in the page at `page`.
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

/// A chore, bench or make target that a page names can be run.
pub fn named_commands_exist(files: &[SourceFile]) -> Vec<Breach> {
    let targets = make_targets(files);
    prose(files)
        .flat_map(|(file, line, text)| code_spans(text).map(move |span| (file, line, span)))
        .filter_map(|(file, line, span)| {
            let why = unknown_command(span, &targets)?;
            Some(Breach::error(&file.path, line, "command", why))
        })
        .collect()
}

fn unknown_command(span: &str, targets: &[&str]) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", "bench", name, ..] if !bench::NAMES.contains(name) && is_name(name) => {
            Some(format!("there is no bench `{name}`"))
        }
        ["cargo", "xtask", name, ..]
            if is_name(name) && !CHORES.iter().any(|(chore, _)| chore == name) =>
        {
            Some(format!("there is no chore `{name}`"))
        }
        ["make", target, ..] if is_name(target) && !targets.contains(target) => {
            Some(format!("the Makefile has no target `{target}`"))
        }
        _ => None,
    }
}

/// `…` and `NAME` stand for something.
fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// What stands between backticks, and whole lines of indented or fenced code after a prompt.
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
