//! Writes results to stdout and notes to stderr, and finds the archive.

use super::args::ArchiveArgs;
use crate::command_failure::{ARCHIVE, CommandFailure, HOST};
use etcetera::BaseStrategy;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_report::document::ReportDocument;
use longhaul_report::style::{CAVEAT, paint};
use longhaul_store::Archive;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, OnceLock};

/// Stands before every line of text.
static LINE_TITLE: OnceLock<String> = OnceLock::new();

/// Begins every line of text with a title. Only the first call counts.
pub fn set_line_title(title: &str) {
    let _ = LINE_TITLE.set(format!("{title}:  "));
}

/// Writes text to stdout, without colour if it is off.
pub fn print_text(text: &str) -> Result<(), CommandFailure> {
    let text = fit_locale(text);
    let mut out = anstream::stdout();
    match LINE_TITLE.get() {
        Some(title) => text.lines().try_for_each(|line| writeln!(out, "{title}{line}"))?,
        None => out.write_all(text.as_bytes())?,
    }
    Ok(out.flush()?)
}

/// Returns whether the locale's characters are UTF-8. As in systemd, an environment without a locale
/// is taken for UTF-8, because most containers and services have none.
fn is_utf8_locale() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"];
    let mut values = variables.into_iter().filter_map(std::env::var_os);
    values.find(|value| !value.is_empty()).is_none_or(|locale| {
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Returns text in ASCII if the terminal's locale is not UTF-8.
pub fn fit_locale(text: &str) -> Cow<'_, str> {
    static IS_UTF8: LazyLock<bool> = LazyLock::new(is_utf8_locale);
    if *IS_UTF8 || text.is_ascii() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(replace_by_ascii(text))
    }
}

/// Replaces the drawing and the unit characters of reports, and all others by `?`.
fn replace_by_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if character.is_ascii() => ascii.push(character),
            // Eight heights of a block, from the lowest.
            '▁'..='█' => ascii
                .push(['_', '.', ':', '-', '=', '+', '*', '#'][character as usize - '▁' as usize]),
            'µ' => ascii.push('u'),
            '·' => ascii.push('.'),
            '×' => ascii.push('x'),
            '–' | '−' => ascii.push('-'),
            '→' => ascii.push_str("->"),
            '≥' => ascii.push_str(">="),
            '≤' => ascii.push_str("<="),
            '±' => ascii.push_str("+-"),
            '…' => ascii.push_str("..."),
            '²' => ascii.push('2'),
            _ => ascii.push('?'),
        }
    }
    ascii
}

/// Writes a document as text to stdout, over the former one if that is a terminal.
pub fn print_live_document(page: &ReportDocument) -> Result<(), CommandFailure> {
    const CLEAR_SCREEN: &str = "\x1b[2J\x1b[H";
    let begin = if std::io::stdout().is_terminal() { CLEAR_SCREEN } else { "" };
    print_text(&format!("{begin}{}", page.text()))
}

/// Writes a document as text to stdout.
pub fn print_document(document: &ReportDocument) -> Result<(), CommandFailure> {
    print_text(&document.text())
}

/// Writes a JSON document to stdout: indented on a terminal, otherwise on one line.
pub fn print_json(value: &Value) -> Result<(), CommandFailure> {
    print_unstyled(&if std::io::stdout().is_terminal() {
        format!("{value:#}\n")
    } else {
        format!("{value}\n")
    })
}

/// Writes JSON to stdout, each value on one line, and flushes.
pub fn print_json_lines(values: &[impl Display]) -> Result<(), CommandFailure> {
    let mut out = std::io::stdout().lock();
    values.iter().try_for_each(|value| writeln!(out, "{value}"))?;
    Ok(out.flush()?)
}

/// Appends stdout and stderr of this command to a file: starts the program anew with them, unless it
/// already writes there.
pub fn append_output_to(path: &Path) -> Result<(), CommandFailure> {
    let failed = |error: io::Error| {
        CommandFailure::new(HOST, format!("cannot write {}", path.display()))
            .cause(&error)
            .hint(Some("name a file in a writable folder with `--logfile FILE`"))
    };
    let identify = |of: std::fs::Metadata| (of.dev(), of.ino());
    let file = File::options().append(true).create(true).open(path).map_err(failed)?;
    let wanted = file.metadata().map(identify).map_err(failed)?;
    if std::fs::metadata("/proc/self/fd/1").map(identify).is_ok_and(|own| own == wanted) {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(failed)?;
    let mut again = Command::new(program);
    again.args(std::env::args_os().skip(1)).stdout(file.try_clone().map_err(failed)?).stderr(file);
    Err(failed(again.exec()))
}

/// Writes text without colours to stdout.
pub fn print_unstyled(text: &str) -> Result<(), CommandFailure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes JSON or a document to stdout.
pub fn print_json_or_document(
    as_json: bool,
    json: &Value,
    document: &ReportDocument,
) -> Result<(), CommandFailure> {
    if as_json { print_json(json) } else { print_document(document) }
}

/// Writes caveats to stderr.
pub fn print_caveats(caveats: &[ReportCaveat]) {
    for caveat in caveats {
        print_caveat(&caveat.text);
    }
}

/// Writes a caveat to stderr.
pub fn print_caveat(text: &str) {
    print_note(&format!("{} {text}", paint(CAVEAT, "caveat:")));
}

/// Writes a line to stderr. If stderr is closed, the line is lost.
pub fn print_note(line: &str) {
    let _ = writeln!(anstream::stderr(), "{}", fit_locale(line));
}

/// Writes a file that the user named.
pub fn write_file(path: &Path, content: &str, hint: &str) -> Result<(), CommandFailure> {
    std::fs::write(path, content).map_err(|error| {
        CommandFailure::new(HOST, format!("cannot write {}", path.display()))
            .cause(&error)
            .hint(Some(hint))
    })
}

/// Returns the path of the given archive, or of the user's default one.
pub fn archive_path(args: &ArchiveArgs) -> Result<PathBuf, CommandFailure> {
    if let Some(path) = &args.archive {
        return Ok(path.clone());
    }
    Ok(data_folder()?.join("archive.sqlite3"))
}

/// Returns the folder of longhaul in the XDG data folder.
pub fn data_folder() -> Result<PathBuf, CommandFailure> {
    let folders = etcetera::base_strategy::Xdg::new().map_err(|e| {
        CommandFailure::from_error(ARCHIVE, &e)
            .hint(Some("set HOME, or name the archive with `--archive FILE`"))
    })?;
    Ok(folders.data_dir().join("longhaul"))
}

/// Opens the archive if it exists.
pub fn open_archive(args: &ArchiveArgs) -> Result<Option<Archive>, CommandFailure> {
    Ok(Archive::open_existing(&archive_path(args)?)?)
}

/// Opens the archive, which must exist. `maker` is a command that would create it.
pub fn require_archive(args: &ArchiveArgs, maker: &str) -> Result<Archive, CommandFailure> {
    open_archive(args)?.ok_or_else(|| {
        let path = archive_path(args).unwrap_or_default();
        CommandFailure::new(ARCHIVE, format!("cannot find the archive {}", path.display()))
            .hint(Some(format!("create one with `{maker}`, or name another with `--archive FILE`")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_utf8_keeps_its_width_and_its_sense() {
        assert_eq!(replace_by_ascii("·▁▄█ 31.2 µs, 4 × 5"), "._-# 31.2 us, 4 x 5");
        assert_eq!(replace_by_ascii("near → far ≥ 1.8 Gbit/s é"), "near -> far >= 1.8 Gbit/s ?");
    }
}
