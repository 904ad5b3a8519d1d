//! Checks throughput records and puts them into bundles, for programs that verify a bundle or a
//! published claim and measure nothing.
//!
//! - [`record_assembly`]: from runs to a [`speed_record`]
//! - [`record_conclusion`]: class, distance, score and rules; [`rule_sets`]: rules and earlier marks
//! - [`legs_file`], [`airport_table`]: the cities that the data passes
//! - [`bundle_folder`], [`bundle_manifest`], [`signing_keys`]: writes, lists and signs a bundle
//! - [`bundle_verification`], [`record_recomputation`]: verifies one
//! - [`published_claim`], [`claims_file`], [`claim_check`]: published claims
//!
//! The crate knows no clock, network, archive or command line.

#![forbid(unsafe_code)]

pub mod airport_table;
pub mod bundle_folder;
pub mod bundle_manifest;
pub mod bundle_verification;
pub mod claim_check;
pub mod claims_file;
pub mod legs_file;
pub mod published_claim;
pub mod record_assembly;
pub mod record_conclusion;
mod record_recomputation;
pub mod rule_sets;
pub mod signing_keys;
pub mod speed_record;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The side that has to act on a [`RecordError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordErrorKind {
    /// An argument or an input file is wrong.
    Input,
    /// The host refused to write or had no random bytes.
    Host,
    /// The program is wrong.
    Internal,
}

/// A failure with its cause, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError {
    pub kind: RecordErrorKind,
    pub message: String,
    pub causes: Vec<String>,
    pub hint: Option<String>,
}

impl RecordError {
    pub(crate) fn new(kind: RecordErrorKind, message: impl Into<String>) -> RecordError {
        RecordError { kind, message: message.into(), causes: Vec::new(), hint: None }
    }

    fn input(message: impl Into<String>) -> RecordError {
        RecordError::new(RecordErrorKind::Input, message)
    }

    /// Adds the lines of a reason, such as the position in a file.
    fn cause(mut self, why: impl fmt::Display) -> RecordError {
        let why = why.to_string();
        let lines = why.lines().map(str::trim_end).filter(|it| !it.is_empty());
        self.causes.extend(lines.map(str::to_owned));
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> RecordError {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.causes.iter().try_for_each(|why| write!(f, ": {why}"))
    }
}

impl std::error::Error for RecordError {}

/// Reads at most `most` bytes of a file.
fn read_limited(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(|e| e.to_string())?;
    let read = opened.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|e| e.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("larger than {most} bytes"));
    }
    Ok(bytes)
}

/// Writes a file that must not exist yet, readable as `mode` allows.
fn write_new_file(path: &Path, mode: u32, source: &mut dyn Read) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    io::copy(source, &mut file)?;
    file.sync_all()
}

fn read_limited_text(path: &Path, most: u64) -> Result<String, String> {
    String::from_utf8(read_limited(path, most)?).map_err(|_| "not UTF-8 text".to_owned())
}

/// Returns the length of a regular file that is not a link.
fn regular_file_length(path: &Path) -> Result<u64, String> {
    match fs::symlink_metadata(path) {
        Ok(it) if it.is_file() => Ok(it.len()),
        Ok(it) if it.is_symlink() => Err("a symbolic link".to_owned()),
        Ok(_) => Err("not a regular file".to_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err("missing".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}
