//! Writes results to stdout and notes to stderr, and finds the archive.

use super::args::ArchiveArgs;
use crate::command_failure::{ARCHIVE, CommandFailure, HOST};
use etcetera::BaseStrategy;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_report::document::ReportDocument;
use longhaul_report::style::{CAVEAT, paint};
use longhaul_store::Archive;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Writes text to stdout, without colour if it is off.
pub fn print_text(text: &str) -> Result<(), CommandFailure> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
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
    let _ = writeln!(anstream::stderr(), "{line}");
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
