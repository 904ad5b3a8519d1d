//! The folder of a bundle: written next to its target and renamed into place when complete.

use crate::bundle_manifest::{self, MANIFEST_NAME, MAX_FILE_BYTES, SIGNATURE_NAME};
use crate::signing_keys::BundleSigner;
use crate::speed_record::{BundleManifest, MANIFEST_SCHEMA, ManifestEntry};
use crate::{RecordError, RecordErrorKind, write_new_file};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The mode of files, less the umask.
const FILE_MODE: u32 = 0o666;

/// A bundle being written; removed if it is dropped before [`BundleFolder::finish`].
#[derive(Debug)]
pub struct BundleFolder {
    target: PathBuf,
    staging: PathBuf,
    files: Vec<ManifestEntry>,
    finished: bool,
}

/// Fails before a long measurement unless the target is missing or an empty folder.
pub fn check_bundle_target(place: &Path) -> Result<(), RecordError> {
    let why = match fs::symlink_metadata(place) {
        Ok(there) if there.is_dir() => match fs::read_dir(place).map(|mut it| it.next()) {
            Ok(None) => None,
            Ok(Some(_)) => Some("not empty".to_owned()),
            Err(error) => Some(error.to_string()),
        },
        Ok(_) => Some("not a folder".to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Some(error.to_string()),
        Err(_) if place.file_name().is_some() && parent_folder(place).is_dir() => None,
        Err(_) => Some("its parent folder does not exist, or its name is empty".to_owned()),
    };
    let Some(why) = why else {
        return Ok(());
    };
    let message = format!("cannot write the bundle {}", place.display());
    let hint = "name another folder, in an existing one, with `--out DIR`";
    Err(RecordError::input(message).cause(why).hint(hint))
}

fn parent_folder(place: &Path) -> &Path {
    match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl BundleFolder {
    pub fn begin(place: &Path) -> Result<BundleFolder, RecordError> {
        check_bundle_target(place)?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let part = format!(".{name}.{}.part", std::process::id());
        let beside = parent_folder(place).join(part);
        fs::create_dir(&beside).map_err(|e| bundle_write_failure(place, &e))?;
        Ok(BundleFolder {
            target: place.to_owned(),
            staging: beside,
            files: Vec::new(),
            finished: false,
        })
    }

    /// Adds a new file.
    pub fn add(&mut self, name: &str, about: &str, bytes: &[u8]) -> Result<(), RecordError> {
        self.write_file(name, about, &mut &bytes[..], None)
    }

    /// Adds a copy of a regular file.
    pub fn copy(&mut self, name: &str, about: &str, from: &Path) -> Result<(), RecordError> {
        let refused =
            |why: &str| RecordError::input(format!("cannot attach {}", from.display())).cause(why);
        let known = fs::metadata(from).map_err(|e| refused(&e.to_string()))?;
        if !known.is_file() || known.len() > MAX_FILE_BYTES {
            return Err(refused("not a regular file of at most 64 GiB"));
        }
        let mut source = File::open(from).map_err(|e| refused(&e.to_string()))?;
        self.write_file(name, about, &mut source, Some(from))
    }

    fn write_file(
        &mut self,
        name: &str,
        about: &str,
        source: &mut dyn Read,
        from: Option<&Path>,
    ) -> Result<(), RecordError> {
        debug_assert!(bundle_manifest::is_bundle_file_name(name), "{name}");
        let path = self.staging.join(name);
        let written = write_new_file(&path, FILE_MODE, &mut source.take(MAX_FILE_BYTES));
        let told = from.unwrap_or(&self.target);
        written.map_err(|e| bundle_write_failure(told, &e))?;
        let digest = bundle_manifest::digest_file(&path, MAX_FILE_BYTES);
        let (bytes, sha256) = digest.map_err(|e| bundle_write_failure(&self.target, &e))?;
        self.files.push(ManifestEntry {
            name: name.to_owned(),
            bytes,
            sha256,
            about: about.to_owned(),
        });
        Ok(())
    }

    /// Returns the files added so far.
    pub fn files(&self) -> &[ManifestEntry] {
        &self.files
    }

    /// Writes the manifest, signs it, and renames the folder into place.
    pub fn finish(
        mut self,
        signer: Option<&BundleSigner>,
    ) -> Result<Vec<ManifestEntry>, RecordError> {
        let manifest = BundleManifest {
            schema: MANIFEST_SCHEMA.to_owned(),
            files: std::mem::take(&mut self.files),
            public_key: signer.map(BundleSigner::public_key),
        };
        let text = serde_json::to_string_pretty(&manifest);
        let text =
            text.map_err(|e| RecordError::new(RecordErrorKind::Internal, e.to_string()))? + "\n";
        let mut written =
            write_new_file(&self.staging.join(MANIFEST_NAME), FILE_MODE, &mut text.as_bytes());
        if let Some(signer) = signer {
            let signature = signer.sign(text.as_bytes());
            let path = self.staging.join(SIGNATURE_NAME);
            written =
                written.and_then(|()| write_new_file(&path, FILE_MODE, &mut signature.as_bytes()));
        }
        // The rename replaces nothing but an empty folder.
        let placed = written.and_then(|()| fs::rename(&self.staging, &self.target));
        placed.map_err(|e| bundle_write_failure(&self.target, &e))?;
        self.finished = true;
        Ok(manifest.files)
    }
}

fn bundle_write_failure(place: &Path, error: &io::Error) -> RecordError {
    let message = format!("cannot write the bundle {}", place.display());
    RecordError::new(RecordErrorKind::Host, message)
        .cause(error)
        .hint("retry with `longhaul record make --run ID --out DIR`; the runs are archived")
}

impl Drop for BundleFolder {
    fn drop(&mut self) {
        if !self.finished {
            // The error that led here is reported.
            let _ = fs::remove_dir_all(&self.staging);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_bundle_is_there_whole_or_not_at_all() {
        let above = empty("bundle-folder");
        let place = above.join("bundle");
        let mut folder = BundleFolder::begin(&place).expect("begun");
        folder.add("a.txt", "a file", b"abc").expect("added");
        drop(folder);
        assert_eq!(fs::read_dir(&above).expect("there").count(), 0);
        let mut folder = BundleFolder::begin(&place).expect("begun");
        folder.add("a.txt", "a file", b"abc").expect("added");
        assert!(folder.add("a.txt", "again", b"").is_err(), "no file twice");
        let files = folder.finish(None).expect("in its place");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((files[0].bytes, files[0].sha256.as_str()), (3, abc));
        assert!(place.join(MANIFEST_NAME).is_file());
        fs::remove_dir_all(&above).expect("removed");
    }

    #[test]
    fn nothing_is_written_over() {
        let above = empty("bundle-refused");
        fs::write(above.join("file"), "mine").expect("written");
        std::os::unix::fs::symlink(&above, above.join("link")).expect("linked");
        for place in ["file", "link", "nowhere/bundle", ""] {
            assert!(BundleFolder::begin(&above.join(place)).is_err(), "{place}");
        }
        let place = above.join("late");
        let folder = BundleFolder::begin(&place).expect("begun");
        fs::create_dir(&place).expect("made");
        fs::write(place.join("file"), "somebody was faster").expect("written");
        assert!(folder.finish(None).is_err());
        assert_eq!(fs::read_dir(&place).expect("there").count(), 1);
        fs::remove_dir_all(&above).expect("removed");
    }
}
