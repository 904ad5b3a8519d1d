//! The target of a copy: its file names, and the files that exist already.

use super::block_digest::BlockSum;
use super::copy_source::MAX_COPIED_FILES;
use super::partial_file::PartialFile;
use super::relative_names::{self, join_paths};
use longhaul_probe::wire::{ExistingEntries, FileEntry, TargetRequest};
use longhaul_sys::confined_dir::{ConfinedDir, FileKind, FileState};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The target, with all entries to be written.
#[derive(Debug, Default)]
pub(crate) struct CopyTarget {
    /// Folder and path; `None`: standard output.
    pub(super) location: Option<(Arc<ConfinedDir>, PathBuf)>,
    pub(super) options: TargetRequest,
    pub(super) entries: Vec<TargetEntry>,
    /// Set when the requester is gone: waiting and verification end.
    cancelled: Arc<AtomicBool>,
}

/// A file or folder to be created.
#[derive(Debug)]
pub(super) struct TargetEntry {
    pub entry: FileEntry,
    /// Path below the target's folder.
    pub path: PathBuf,
    /// True if the file exists already and is not sent.
    pub exists: bool,
    /// Data left by an earlier copy.
    pub leftover: Option<(PartialFile, Vec<(u64, BlockSum)>)>,
}

impl CopyTarget {
    /// Resolves the path below the opened folder. The error names the obstacle.
    pub fn resolve(
        folder: ConfinedDir,
        asked: &Path,
        wish: TargetRequest,
        given_up: Arc<AtomicBool>,
    ) -> Result<CopyTarget, String> {
        let failed = |path: &Path, why: &dyn Display| cannot_write(path, why);
        let seen = folder.stat(asked).map_err(|e| failed(asked, &e))?;
        let path = match (seen.map(|seen| seen.kind), &wish.name) {
            (Some(FileKind::Folder), Some(name)) => {
                join_paths(asked, &relative_names::parse_relative_path(name)?)
            }
            (Some(FileKind::Folder), None) => {
                return Err(failed(asked, &"it is a folder; name a file in it"));
            }
            _ => asked.to_owned(),
        };
        Ok(CopyTarget {
            location: Some((Arc::new(folder), path)),
            options: wish,
            entries: Vec::new(),
            cancelled: given_up,
        })
    }

    /// Returns standard output as a target.
    pub fn stream() -> CopyTarget {
        CopyTarget::default()
    }

    /// Adds the next entries: creates folders, and checks for existing files.
    pub fn add_entries(&mut self, entries: Vec<FileEntry>) -> Result<ExistingEntries, String> {
        if self.entries.len() + entries.len() > MAX_COPIED_FILES {
            return Err(format!("more than {MAX_COPIED_FILES} files in one copy"));
        }
        let mut entered = ExistingEntries::default();
        for entry in entries {
            let index = self.entries.len() as u32;
            let planned = self.plan_entry(entry)?;
            if planned.exists {
                entered.there.push(index);
            }
            if planned.leftover.is_some() {
                entered.begun.push(index);
            }
            self.entries.push(planned);
        }
        Ok(entered)
    }

    /// Returns the existing blocks of a file, starting at `from`.
    pub fn existing_blocks(&self, file: u32, from: u64, most: usize) -> Vec<(u64, [u8; 32])> {
        let planned = self.entries.get(file as usize);
        let left = planned.and_then(|planned| planned.leftover.as_ref());
        let blocks = left.into_iter().flat_map(|(_, left)| left);
        let wanted = blocks.filter(|(index, _)| *index >= from);
        wanted.map(|(index, sum)| (*index, sum.inner)).take(most).collect()
    }

    fn plan_entry(&self, entry: FileEntry) -> Result<TargetEntry, String> {
        let inner = relative_names::parse_relative_path(&entry.path)?;
        let mut planned = TargetEntry { path: inner.clone(), entry, exists: false, leftover: None };
        let Some((folder, base)) = &self.location else {
            let plain = !planned.entry.folder && planned.path.as_os_str().is_empty();
            return plain
                .then_some(planned)
                .ok_or_else(|| "a folder cannot be written to standard output".to_owned());
        };
        planned.path = join_paths(base, &inner);
        let path = planned.path.clone();
        let failed = |why: &dyn Display| cannot_write(&path, why);
        let seen = folder.stat(&path).map_err(|error| failed(&error))?;
        if planned.entry.folder {
            return match seen.map(|seen| seen.kind) {
                Some(FileKind::Folder) => Ok(planned),
                Some(_) => Err(failed(&"it exists and is not a folder")),
                None => {
                    folder.make_folder(&path).map_err(|error| failed(&error))?;
                    Ok(planned)
                }
            };
        }
        planned.exists = match seen {
            None => false,
            Some(seen) => self.is_complete(seen, &planned.entry).map_err(|why| failed(&why))?,
        };
        if !planned.exists && PartialFile::has_leftover(folder, &path) {
            let given_up = || self.cancelled.load(Ordering::Relaxed);
            let direct = self.options.direct;
            let opened = PartialFile::open(folder, &path, direct, &planned.entry, &given_up);
            let begun = opened.map_err(|error| failed(&error))?;
            planned.leftover = (!begun.1.is_empty()).then_some(begun);
        }
        Ok(planned)
    }

    /// Returns whether the existing file is already complete; the error says why it cannot be
    /// replaced.
    fn is_complete(&self, seen: FileState, entry: &FileEntry) -> Result<bool, &'static str> {
        match seen.kind {
            FileKind::Folder => return Err("it is a folder"),
            FileKind::Link => return Err("it is a symbolic link"),
            FileKind::Special => return Err("it is a device, pipe or socket"),
            FileKind::File => {}
        }
        if self.options.overwrite {
            return Ok(false);
        }
        // Files completed by an earlier run of the same copy are not sent again.
        let same =
            entry.size_bytes == Some(seen.size_bytes) && entry.modified_ns == seen.modified_ns;
        if self.options.folder && same {
            return Ok(true);
        }
        Err("the file exists; `--overwrite` replaces it")
    }
}

pub(super) fn cannot_write(path: &Path, why: &dyn Display) -> String {
    format!("cannot write {}: {why}", path.display())
}
