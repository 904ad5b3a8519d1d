//! Writes figure files completely or not at all, and replaces only regular files.

use crate::command_failure::{CommandFailure, HOST, USAGE};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The format of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureFormat {
    Svg,
    Png,
}

/// Returns the format for the extension of `to`.
pub fn figure_format(to: &Path) -> Result<FigureFormat, CommandFailure> {
    let extension = to.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "svg" => Ok(FigureFormat::Svg),
        "png" => Ok(FigureFormat::Png),
        _ => Err(figure_failure(USAGE, to)
            .hint(Some("name a file that ends in .svg (scalable, for documents) or .png"))),
    }
}

/// Fails unless the target is missing or a regular file.
pub fn check_replaceable(to: &Path) -> Result<(), CommandFailure> {
    match fs::symlink_metadata(to) {
        Ok(there) if there.is_file() => Ok(()),
        Ok(_) => {
            let mut fail = figure_failure(USAGE, to);
            fail.causes.push(String::from("it exists and is not a regular file"));
            Err(fail.hint(Some("name another file")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(figure_write_failure(to, &error)),
    }
}

/// Writes a temporary file and renames it, so that a reader sees either the old or the new figure.
pub fn replace_file(to: &Path, bytes: &[u8]) -> Result<(), CommandFailure> {
    check_replaceable(to)?;
    let beside = temporary_path(to);
    let written = write_new_file(&beside, bytes).and_then(|()| fs::rename(&beside, to));
    written.map_err(|error| {
        // The file may not exist. Only the first error is reported.
        let _ = fs::remove_file(&beside);
        figure_write_failure(to, &error)
    })
}

fn write_new_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn temporary_path(to: &Path) -> PathBuf {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    to.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

fn figure_failure(code: u8, to: &Path) -> CommandFailure {
    CommandFailure::new(code, format!("cannot write {}", to.display()))
}

fn figure_write_failure(to: &Path, error: &io::Error) -> CommandFailure {
    let mut fail = figure_failure(HOST, to);
    fail.causes.push(error.to_string());
    fail.hint(Some("name a file in an existing, writable folder"))
}
