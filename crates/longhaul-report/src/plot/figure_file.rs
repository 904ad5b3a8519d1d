//! Writes figure files completely or not at all, and replaces only regular files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A figure that cannot be drawn or written.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    #[error("cannot write {}", path.display())]
    NotReplaceable { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl FigureError {
    /// Returns what the user can do.
    pub const fn hint(&self) -> &'static str {
        match self {
            FigureError::NotReplaceable { .. } => "name another file",
            FigureError::Write { .. } => "name a file in an existing, writable folder",
        }
    }
}

/// Fails if `to` exists and is not a regular file.
pub fn check_replaceable(to: &Path) -> Result<(), FigureError> {
    match fs::symlink_metadata(to) {
        Ok(there) if there.is_file() => Ok(()),
        Ok(_) => {
            let source = io::Error::other("it exists and is not a regular file");
            Err(FigureError::NotReplaceable { path: to.to_owned(), source })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(FigureError::Write { path: to.to_owned(), source }),
    }
}

/// Writes a temporary file and renames it, so that a reader sees either the old or the new figure.
pub fn replace_file(to: &Path, bytes: &[u8]) -> Result<(), FigureError> {
    check_replaceable(to)?;
    let beside = temporary_path(to);
    let written = write_new_file(&beside, bytes).and_then(|()| fs::rename(&beside, to));
    written.map_err(|source| {
        // The file may not exist. Only the first error is reported.
        let _ = fs::remove_file(&beside);
        FigureError::Write { path: to.to_owned(), source }
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
