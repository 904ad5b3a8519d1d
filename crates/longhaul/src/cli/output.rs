//! Writes results to stdout, and finds the archive.

use super::args::ArchiveArgs;
use crate::fail::{ARCHIVE, Fail};
use etcetera::BaseStrategy;
use longhaul_store::filed::Filed;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Writes text to stdout, without colour if it is off.
pub fn text(text: &str) -> Result<(), Fail> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a JSON document to stdout: indented on a terminal, otherwise on one line.
pub fn json(value: &Value) -> Result<(), Fail> {
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
pub fn report<R: Filed>(
    report: &R,
    as_text: impl FnOnce(&R) -> String,
    as_json: bool,
) -> Result<(), Fail> {
    if as_json {
        let pretty = std::io::stdout().is_terminal();
        let written = if pretty {
            report.indented()
        } else {
            report.text()
        };
        let document = written.map_err(|e| Fail::from_error(crate::fail::BUG, &e))? + "\n";
        let mut out = std::io::stdout().lock();
        out.write_all(document.as_bytes())?;
        Ok(out.flush()?)
    } else {
        text(&as_text(report))
    }
}

/// Returns the path of the given archive, or of the user's default one.
pub fn archive_path(args: &ArchiveArgs) -> Result<PathBuf, Fail> {
    if let Some(path) = &args.archive {
        return Ok(path.clone());
    }
    let folders = etcetera::base_strategy::Xdg::new().map_err(|e| {
        Fail::from_error(ARCHIVE, &e)
            .hint(Some("set HOME, or name the archive with `--archive FILE`"))
    })?;
    Ok(folders.data_dir().join("longhaul").join("archive.sqlite3"))
}
