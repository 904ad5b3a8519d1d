//! Checks of the pages and scripts: links, paths and commands that exist.

use super::FormBreach;
use crate::checkout::SourceFile;
use crate::{BenchName, DevelopmentTask};
use clap::{CommandFactory, ValueEnum};

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
