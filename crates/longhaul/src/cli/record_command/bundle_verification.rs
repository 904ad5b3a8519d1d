//! `longhaul record verify DIR`: checks that a bundle is unchanged and its figures agree.
//!
//! The folder is not trusted: names are checked before files are opened, links and folders are
//! refused, and no file is read beyond its listed length.

use super::bundle_contents::{IMPORTED, RECORD, THROUGHPUT};
use super::bundle_manifest::{self, MANIFEST_NAME, MAX_MANIFEST_BYTES, SIGNATURE_NAME};
use super::{record_recomputation, signing_keys};
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_model::report::v1::record::BundleManifest;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The maximum number of entries of a bundle.
const MAX_ENTRIES: usize = bundle_manifest::MAX_FILES + 2;
/// The maximum size of JSON that is parsed, not only digested.
const MAX_JSON_BYTES: u64 = 256 << 20;

/// The result of a verification.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BundleVerification {
    pub files: usize,
    /// The differences: the file or figure, and the reason.
    pub differs: Vec<(String, String)>,
    /// The checks that passed, as sentences.
    pub agrees: Vec<String>,
    /// The public key, if its signature is valid.
    pub signed_by: Option<String>,
}

impl BundleVerification {
    pub fn add_difference(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.differs.push((what.into(), why.into()));
    }
}

pub fn verify_bundle(
    folder: &Path,
    key: Option<&str>,
) -> Result<BundleVerification, CommandFailure> {
    let entries = list_entries(folder)?;
    let mut found = BundleVerification::default();
    let read = read_regular_file(&folder.join(MANIFEST_NAME), MAX_MANIFEST_BYTES);
    let manifest = read.and_then(|bytes| Ok((bundle_manifest::parse_manifest(&bytes)?, bytes)));
    let (manifest, bytes) = match manifest {
        Ok(both) => both,
        Err(why) => {
            found.add_difference(MANIFEST_NAME, why);
            return Ok(found);
        }
    };
    found.files = manifest.files.len();
    check_signature(folder, (&manifest, &bytes), key, &mut found);
    find_unlisted_files(&entries, &manifest, &mut found);
    let sound = check_listed_files(folder, &manifest, &mut found);
    check_figures(folder, &sound, &mut found);
    Ok(found)
}

/// Lists the names in the folder. A name that is not UTF-8 is shown lossily and matches no file.
fn list_entries(folder: &Path) -> Result<Vec<String>, CommandFailure> {
    let fail = |why: String| {
        let mut fail = CommandFailure::new(
            USAGE,
            format!("cannot read the bundle {}", folder.display()),
        );
        fail.causes.push(why);
        fail.hint(Some("name a folder written by `longhaul record`"))
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| fail(e.to_string()))? {
        let entry = entry.map_err(|e| fail(e.to_string()))?;
        if names.len() == MAX_ENTRIES {
            return Err(fail(format!("more than {MAX_ENTRIES} entries")));
        }
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Reads a regular file of at most `most` bytes.
fn read_regular_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    regular_file_length(path)?;
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(|e| e.to_string())?;
    let read = opened.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|e| e.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("larger than {most} bytes"));
    }
    Ok(bytes)
}

fn regular_file_length(path: &Path) -> Result<u64, String> {
    match fs::symlink_metadata(path) {
        Ok(it) if it.is_file() => Ok(it.len()),
        Ok(it) if it.is_symlink() => Err("a symbolic link".to_owned()),
        Ok(_) => Err("not a regular file".to_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err("missing".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn check_signature(
    folder: &Path,
    (manifest, bytes): (&BundleManifest, &[u8]),
    key: Option<&str>,
    found: &mut BundleVerification,
) {
    let Some(own) = &manifest.public_key else {
        if key.is_some() {
            found.add_difference(SIGNATURE_NAME, "the bundle is not signed");
        }
        return;
    };
    if key.is_some_and(|key| key != own) {
        found.add_difference(SIGNATURE_NAME, format!("signed by another key: {own}"));
        return;
    }
    // 128 digits and a newline.
    let signature = read_regular_file(&folder.join(SIGNATURE_NAME), 200)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "not a signature".to_owned()));
    match signature {
        Ok(text) if signing_keys::verify_signature(own, bytes, &text) => {
            found.signed_by = Some(own.clone());
        }
        Ok(_) => found.add_difference(SIGNATURE_NAME, "does not match the manifest"),
        Err(why) => found.add_difference(SIGNATURE_NAME, why),
    }
}

fn find_unlisted_files(
    entries: &[String],
    manifest: &BundleManifest,
    found: &mut BundleVerification,
) {
    let mut known: BTreeSet<&str> = manifest.files.iter().map(|it| it.name.as_str()).collect();
    known.insert(MANIFEST_NAME);
    if manifest.public_key.is_some() {
        known.insert(SIGNATURE_NAME);
    }
    for name in entries.iter().filter(|name| !known.contains(name.as_str())) {
        found.add_difference(name.clone(), "not in the manifest");
    }
}

/// Returns the names of files that match the manifest.
fn check_listed_files(
    folder: &Path,
    manifest: &BundleManifest,
    found: &mut BundleVerification,
) -> BTreeSet<String> {
    let mut sound = BTreeSet::new();
    for file in &manifest.files {
        let path = folder.join(&file.name);
        let digest = regular_file_length(&path).and_then(|bytes| {
            if bytes != file.bytes {
                return Err(format!("{bytes} bytes instead of {}", file.bytes));
            }
            bundle_manifest::digest_file(&path, file.bytes).map_err(|e| e.to_string())
        });
        match digest {
            Ok((bytes, sha256)) if bytes == file.bytes && sha256 == file.sha256 => {
                sound.insert(file.name.clone());
            }
            Ok(_) => {
                found.add_difference(file.name.clone(), "the content differs from the manifest");
            }
            Err(why) => found.add_difference(file.name.clone(), why),
        }
    }
    sound
}

/// Recomputes the mark from the bundle's own numbers.
fn check_figures(folder: &Path, sound: &BTreeSet<String>, found: &mut BundleVerification) {
    let mut texts = Vec::new();
    let is_imported = sound.contains(IMPORTED) && !sound.contains(THROUGHPUT);
    let transfer = if is_imported { IMPORTED } else { THROUGHPUT };
    for name in [RECORD, transfer] {
        let read = if sound.contains(name) {
            read_regular_file(&folder.join(name), MAX_JSON_BYTES)
        } else {
            Err("required to recompute the figures".to_owned())
        };
        match read {
            Ok(bytes) => texts.push(bytes),
            Err(why) => found.add_difference(name, why),
        }
    }
    if let [record, run] = texts.as_slice() {
        record_recomputation::recompute_record(record, (transfer, run), found);
    }
}
