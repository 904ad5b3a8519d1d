//! Checks of the pages: links, paths and commands that exist.

use super::FormBreach;
use crate::checkout::SourceFile;
use crate::{CHORES, list_benches};

/// Pages that every user or developer expects.
const REQUIRED_PAGES: &[&str] = &[
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

/// Returns all breaches in the Markdown pages.
pub fn check_pages(files: &[SourceFile]) -> Vec<FormBreach> {
    let missing = REQUIRED_PAGES.iter().filter(|page| !exists(files, page));
    let missing = missing.map(|page| FormBreach::new(page, 0, "this page is missing"));
    missing
        .chain(check_links(files))
        .chain(check_paths(files))
        .chain(check_commands(files))
        .collect()
}

/// Checks that relative links lead to files or folders of the checkout.
fn check_links(files: &[SourceFile]) -> Vec<FormBreach> {
    prose(files)
        .flat_map(|(file, line, text)| links(text).map(move |link| (file, line, link)))
        .filter(|(_, _, link)| !link.contains("://") && !link.starts_with(['#', '<']))
        .filter_map(|(file, line, link)| {
            let target = resolve(&file.path, link.split('#').next().unwrap_or(link));
            let why = format!("`{link}` leads nowhere");
            (!exists(files, &target)).then(|| FormBreach::new(&file.path, line, why))
        })
        .collect()
}

/// Checks that paths in backticks exist.
fn check_paths(files: &[SourceFile]) -> Vec<FormBreach> {
    const FOLDERS: &[&str] = &["crates/", "xtask/", "docs/", "fixtures/", "fuzz/"];
    prose(files)
        .flat_map(|(file, line, text)| code_spans(text).map(move |span| (file, line, span)))
        .filter(|(_, _, span)| FOLDERS.iter().any(|folder| span.starts_with(folder)))
        .filter(|(_, _, span)| !span.contains([' ', '*', '{']) && !exists(files, span))
        .map(|(file, line, span)| {
            FormBreach::new(&file.path, line, format!("there is no `{span}`"))
        })
        .collect()
}

fn prose(files: &[SourceFile]) -> impl Iterator<Item = (&SourceFile, usize, &str)> {
    let pages = files.iter().filter(|file| file.is_markdown());
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

/// Checks that tasks, benches and make targets exist.
fn check_commands(files: &[SourceFile]) -> Vec<FormBreach> {
    let targets = make_targets(files);
    prose(files)
        .flat_map(|(file, line, text)| code_spans(text).map(move |span| (file, line, span)))
        .filter_map(|(file, line, span)| {
            let why = unknown_command(span, &targets)?;
            Some(FormBreach::new(&file.path, line, why))
        })
        .collect()
}

fn unknown_command(span: &str, targets: &[&str]) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", "bench", name, ..]
            if is_name(name) && list_benches().all(|bench| bench != *name) =>
        {
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
        let lines =
            |breaches: Vec<FormBreach>| breaches.iter().map(|it| it.line).collect::<Vec<_>>();
        assert_eq!(lines(check_links(&files)), [1]);
        assert_eq!(lines(check_commands(&files)), [3]);
    }
}
