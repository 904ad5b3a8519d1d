//! `longhaul record verify DIR`: checks that a bundle is unchanged and its figures agree.
//!
//! The folder is not trusted: names are checked before files are opened, links and folders are
//! refused, and no file is read beyond its listed length.

use crate::bundle_manifest::{self, MANIFEST_NAME, MAX_MANIFEST_BYTES, SIGNATURE_NAME};
use crate::speed_record::BundleManifest;
use crate::{RecordError, read_limited, record_recomputation, regular_file_length, signing_keys};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The name of the record in a bundle.
pub const RECORD: &str = "record.json";
/// The name of the transfer in a bundle.
pub const THROUGHPUT: &str = "throughput.json";
/// Takes the place of `THROUGHPUT` for a transfer measured by another program.
pub const IMPORTED: &str = "imported.json";
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

pub fn verify_bundle(folder: &Path, key: Option<&str>) -> Result<BundleVerification, RecordError> {
    let entries = list_entries(folder).map_err(|why| {
        let message = format!("cannot read the bundle {}", folder.display());
        let hint = "name a folder written by `longhaul record`";
        RecordError::input(message).cause(why).hint(hint)
    })?;
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
    match check_signature(folder, &manifest, &bytes, key) {
        Ok(signed_by) => found.signed_by = signed_by,
        Err(why) => found.add_difference(SIGNATURE_NAME, why),
    }
    find_unlisted_files(&entries, &manifest, &mut found);
    let sound = check_listed_files(folder, &manifest, &mut found);
    check_figures(folder, &sound, &mut found);
    Ok(found)
}

/// Lists the names in the folder. A name that is not UTF-8 is shown lossily and matches no file.
fn list_entries(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| e.to_string())? {
        let entry = entry.map_err(|e| e.to_string())?;
        if names.len() == MAX_ENTRIES {
            return Err(format!("more than {MAX_ENTRIES} entries"));
        }
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Reads a regular file of at most `most` bytes.
fn read_regular_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    regular_file_length(path)?;
    read_limited(path, most)
}

/// Returns the key of a valid signature, `None` if there is no signature and none is required.
fn check_signature(
    folder: &Path,
    manifest: &BundleManifest,
    bytes: &[u8],
    required: Option<&str>,
) -> Result<Option<String>, String> {
    let Some(own) = &manifest.public_key else {
        return match required {
            Some(_) => Err("the bundle is not signed".to_owned()),
            None => Ok(None),
        };
    };
    if required.is_some_and(|key| key != own) {
        return Err(format!("signed by another key: {own}"));
    }
    // 128 digits and a newline.
    let signature = read_regular_file(&folder.join(SIGNATURE_NAME), 200)?;
    let text = String::from_utf8(signature).map_err(|_| "not a signature".to_owned())?;
    if !signing_keys::verify_signature(own, bytes, &text) {
        return Err("does not match the manifest".to_owned());
    }
    Ok(Some(own.clone()))
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
        record_recomputation::recompute_record(record, transfer, run, found);
    }
}
