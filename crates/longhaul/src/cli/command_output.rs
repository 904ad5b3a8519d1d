//! Writes results to stdout, and finds the archive.

use super::args::ArchiveArgs;
use crate::command_failure::{ARCHIVE, CommandFailure};
use etcetera::BaseStrategy;
use longhaul_report::document::ReportDocument;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

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

/// Returns the path of the given archive, or of the user's default one.
pub fn archive_path(args: &ArchiveArgs) -> Result<PathBuf, CommandFailure> {
    if let Some(path) = &args.archive {
        return Ok(path.clone());
    }
    let folders = etcetera::base_strategy::Xdg::new().map_err(|e| {
        CommandFailure::from_error(ARCHIVE, &e)
            .hint(Some("set HOME, or name the archive with `--archive FILE`"))
    })?;
    Ok(folders.data_dir().join("longhaul").join("archive.sqlite3"))
}
