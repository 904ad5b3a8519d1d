//! Writes figure files completely or not at all, and replaces only regular files.

use crate::fail::{Fail, HOST, USAGE};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The format of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Svg,
    Png,
}

/// Returns the format for the extension of `to`.
pub fn format(to: &Path) -> Result<Format, Fail> {
    let extension = to.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "svg" => Ok(Format::Svg),
        "png" => Ok(Format::Png),
        _ => Err(cannot(USAGE, to).hint(Some(
            "a figure's file ends in .svg (scalable, for documents) or .png",
        ))),
    }
}

/// Fails unless the target is missing or a regular file.
pub fn may_replace(to: &Path) -> Result<(), Fail> {
    match fs::symlink_metadata(to) {
        Ok(there) if there.is_file() => Ok(()),
        Ok(_) => {
            let mut fail = cannot(USAGE, to);
            fail.causes
                .push(String::from("it exists and is not a regular file"));
            Err(fail.hint(Some("name another file")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(because(to, &error)),
    }
}

/// Writes a temporary file and renames it, so that a reader sees either the old or the new figure.
pub fn replace(to: &Path, bytes: &[u8]) -> Result<(), Fail> {
    may_replace(to)?;
    let beside = beside(to);
    let written = write_new(&beside, bytes).and_then(|()| fs::rename(&beside, to));
    written.map_err(|error| {
        // The file may not exist. Only the first error is reported.
        let _ = fs::remove_file(&beside);
        because(to, &error)
    })
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn beside(to: &Path) -> PathBuf {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    to.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

fn cannot(code: u8, to: &Path) -> Fail {
    Fail::new(code, format!("cannot write {}", to.display()))
}

fn because(to: &Path, error: &io::Error) -> Fail {
    let mut fail = cannot(HOST, to);
    fail.causes.push(error.to_string());
    fail.hint(Some(
        "name a file in a folder that exists and may be written to",
    ))
}
