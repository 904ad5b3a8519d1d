//! Writes results to stdout, and finds the archive.

use super::args::ArchiveArgs;
use crate::command_failure::{ARCHIVE, CommandFailure};
use etcetera::BaseStrategy;
use longhaul_store::archived_report::ArchivedReport;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Writes text to stdout, without colour if it is off.
pub fn print_text(text: &str) -> Result<(), CommandFailure> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a JSON document to stdout: indented on a terminal, otherwise on one line.
pub fn print_json(value: &Value) -> Result<(), CommandFailure> {
    let mut out = std::io::stdout().lock();
    let document = if out.is_terminal() {
        format!("{value:#}\n")
    } else {
        format!("{value}\n")
    };
    out.write_all(document.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a report to stdout, as JSON or as text.
pub fn print_report<R: ArchivedReport>(
    report: &R,
    as_text: impl FnOnce(&R) -> String,
    as_json: bool,
) -> Result<(), CommandFailure> {
    if as_json {
        let pretty = std::io::stdout().is_terminal();
        let written = if pretty {
            report.to_pretty_json()
        } else {
            report.to_json()
        };
        let document = written
            .map_err(|e| CommandFailure::from_error(crate::command_failure::BUG, &e))?
            + "\n";
        let mut out = std::io::stdout().lock();
        out.write_all(document.as_bytes())?;
        Ok(out.flush()?)
    } else {
        print_text(&as_text(report))
    }
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
