//! `longhaul record verify DIR`: checks that a bundle is unchanged and its figures agree.
//!
//! The folder is not trusted: names are checked before files are opened, links and folders are
//! refused, and no file is read beyond its listed length.

use super::contents::{IMPORTED, RECORD, THROUGHPUT};
use super::manifest::{self, MANIFEST, MANIFEST_MOST, SIGNATURE};
use super::{derive, keys};
use crate::fail::{Fail, USAGE};
use longhaul_model::report::v1::record::Manifest;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The maximum number of entries of a bundle.
const ENTRIES_MOST: usize = manifest::FILES_MOST + 2;
/// The maximum size of JSON that is parsed, not only digested.
const JSON_MOST: u64 = 256 << 20;

/// The result of a verification.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub files: usize,
    /// The differences: the file or figure, and the reason.
    pub differs: Vec<(String, String)>,
    /// The checks that passed, as sentences.
    pub agrees: Vec<String>,
    /// The public key, if its signature is valid.
    pub signed_by: Option<String>,
}

impl Verified {
    pub fn differ(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.differs.push((what.into(), why.into()));
    }
}

pub fn verify(folder: &Path, key: Option<&str>) -> Result<Verified, Fail> {
    let entries = entries(folder)?;
    let mut found = Verified::default();
    let read = regular(&folder.join(MANIFEST), MANIFEST_MOST);
    let manifest = read.and_then(|bytes| Ok((manifest::parse(&bytes)?, bytes)));
    let (manifest, bytes) = match manifest {
        Ok(both) => both,
        Err(why) => {
            found.differ(MANIFEST, why);
            return Ok(found);
        }
    };
    found.files = manifest.files.len();
    signature(folder, (&manifest, &bytes), key, &mut found);
    added(&entries, &manifest, &mut found);
    let sound = files(folder, &manifest, &mut found);
    figures(folder, &sound, &mut found);
    Ok(found)
}

/// Lists the names in the folder. A name that is not UTF-8 is shown lossily and matches no file.
fn entries(folder: &Path) -> Result<Vec<String>, Fail> {
    let fail = |why: String| {
        let mut fail = Fail::new(
            USAGE,
            format!("cannot read the bundle {}", folder.display()),
        );
        fail.causes.push(why);
        fail.hint(Some("name the folder that `longhaul record` made"))
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| fail(e.to_string()))? {
        let entry = entry.map_err(|e| fail(e.to_string()))?;
        if names.len() == ENTRIES_MOST {
            return Err(fail(format!("it holds more than {ENTRIES_MOST} entries")));
        }
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Reads a regular file of at most `most` bytes.
fn regular(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    is_regular(path)?;
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(|e| e.to_string())?;
    let read = opened.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|e| e.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than {most} bytes"));
    }
    Ok(bytes)
}

fn is_regular(path: &Path) -> Result<u64, String> {
    match fs::symlink_metadata(path) {
        Ok(it) if it.is_file() => Ok(it.len()),
        Ok(it) if it.is_symlink() => Err("it is a symbolic link".to_owned()),
        Ok(_) => Err("it is no regular file".to_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err("it is missing".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn signature(
    folder: &Path,
    (manifest, bytes): (&Manifest, &[u8]),
    key: Option<&str>,
    found: &mut Verified,
) {
    let Some(own) = &manifest.public_key else {
        if key.is_some() {
            found.differ(SIGNATURE, "the bundle is not signed");
        }
        return;
    };
    if key.is_some_and(|key| key != own) {
        found.differ(SIGNATURE, format!("signed by another key: {own}"));
        return;
    }
    // 128 digits and a newline.
    let signature = regular(&folder.join(SIGNATURE), 200)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is no signature".to_owned()));
    match signature {
        Ok(text) if keys::is_signed(own, bytes, &text) => found.signed_by = Some(own.clone()),
        Ok(_) => found.differ(SIGNATURE, "it does not fit the manifest"),
        Err(why) => found.differ(SIGNATURE, why),
    }
}

fn added(entries: &[String], manifest: &Manifest, found: &mut Verified) {
    let mut known: BTreeSet<&str> = manifest.files.iter().map(|it| it.name.as_str()).collect();
    known.insert(MANIFEST);
    if manifest.public_key.is_some() {
        known.insert(SIGNATURE);
    }
    for name in entries.iter().filter(|name| !known.contains(name.as_str())) {
        found.differ(name.clone(), "it is not in the manifest");
    }
}

/// Returns the names of files that match the manifest.
fn files(folder: &Path, manifest: &Manifest, found: &mut Verified) -> BTreeSet<String> {
    let mut sound = BTreeSet::new();
    for file in &manifest.files {
        let path = folder.join(&file.name);
        let digest = is_regular(&path).and_then(|bytes| {
            if bytes != file.bytes {
                return Err(format!("{bytes} bytes, and listed are {}", file.bytes));
            }
            manifest::digest_of(&path, file.bytes).map_err(|e| e.to_string())
        });
        match digest {
            Ok((bytes, sha256)) if bytes == file.bytes && sha256 == file.sha256 => {
                sound.insert(file.name.clone());
            }
            Ok(_) => found.differ(file.name.clone(), "its content is not what was listed"),
            Err(why) => found.differ(file.name.clone(), why),
        }
    }
    sound
}

/// Recomputes the mark from the bundle's own numbers.
fn figures(folder: &Path, sound: &BTreeSet<String>, found: &mut Verified) {
    let mut texts = Vec::new();
    let is_imported = sound.contains(IMPORTED) && !sound.contains(THROUGHPUT);
    let transfer = if is_imported { IMPORTED } else { THROUGHPUT };
    for name in [RECORD, transfer] {
        let read = if sound.contains(name) {
            regular(&folder.join(name), JSON_MOST)
        } else {
            Err("the figures cannot be made again without it".to_owned())
        };
        match read {
            Ok(bytes) => texts.push(bytes),
            Err(why) => found.differ(name, why),
        }
    }
    if let [record, run] = texts.as_slice() {
        derive::again(record, (transfer, run), found);
    }
}
