//! The target of a copy: its file names, and the files that exist already.

use super::copy_source::MAX_COPIED_FILES;
use super::partial_file::{PartialFile, TARGET_EXISTS, VerifiedBlocks};
use super::relative_names::{self, join_paths};
use longhaul_probe::wire::{ExistingEntries, FileEntry, TargetRequest};
use longhaul_sys::confined_dir::{ConfinedDir, FileKind, FileState};
use std::collections::HashSet;
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
    /// The paths of the entries, each of which is listed once: the second would wait for the lock of
    /// the first.
    listed: HashSet<PathBuf>,
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
    /// The locked file, with data left by an earlier copy. Absent for files of a folder without
    /// such data, which are opened later, because there may be more than a process may open.
    pub partial: Option<(PartialFile, VerifiedBlocks)>,
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
                join_paths(asked, &relative_names::parse_relative_path(name.as_received())?)
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
            listed: HashSet::new(),
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
            let path = relative_names::parse_relative_path(entry.path.as_received())?;
            if self.listed.contains(&path) {
                return Err(cannot_write(&path, &"the source lists it twice"));
            }
            let planned = self.plan_entry(entry, &path)?;
            self.listed.insert(path);
            if planned.exists {
                entered.there.push(index);
            }
            if planned.partial.as_ref().is_some_and(|(_, left)| !left.is_empty()) {
                entered.begun.push(index);
            }
            self.entries.push(planned);
        }
        Ok(entered)
    }

    /// Returns the existing blocks of a file, starting at `from`.
    pub fn existing_blocks(&self, file: u32, from: u64, most: usize) -> Vec<(u64, [u8; 32])> {
        let planned = self.entries.get(file as usize);
        let left = planned.and_then(|planned| planned.partial.as_ref());
        let blocks = left.into_iter().flat_map(|(_, left)| left);
        let wanted = blocks.filter(|(index, _)| *index >= from);
        wanted.map(|(index, sum)| (*index, sum.inner)).take(most).collect()
    }

    /// `inner` is the path of the entry.
    fn plan_entry(&self, entry: FileEntry, inner: &Path) -> Result<TargetEntry, String> {
        let mut planned =
            TargetEntry { path: inner.to_owned(), entry, exists: false, partial: None };
        let Some((folder, base)) = &self.location else {
            let plain = !planned.entry.folder && planned.path.as_os_str().is_empty();
            return plain
                .then_some(planned)
                .ok_or_else(|| "a folder cannot be written to standard output".to_owned());
        };
        planned.path = join_paths(base, inner);
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
        // A second copy of a single file is refused before it sends anything.
        let is_single = inner.as_os_str().is_empty();
        if !planned.exists && (is_single || PartialFile::has_leftover(folder, &path)) {
            let given_up = || self.cancelled.load(Ordering::Relaxed);
            let opened = PartialFile::open(folder, &path, &self.options, &planned.entry, &given_up);
            let (partial, left) = opened.map_err(|error| failed(&error))?;
            planned.partial = (is_single || !left.is_empty()).then_some((partial, left));
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
        Err(TARGET_EXISTS)
    }
}

pub(super) fn cannot_write(path: &Path, why: &dyn Display) -> String {
    format!("cannot write {}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_buffer::BlockBuffer;
    use std::ffi::OsString;

    struct TargetFolder(PathBuf);

    impl TargetFolder {
        fn new(test: &str) -> TargetFolder {
            let path = std::env::temp_dir().join(format!("target-{test}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).expect("a folder");
            TargetFolder(path)
        }

        fn target(&self, options: TargetRequest, cancelled: &Arc<AtomicBool>) -> CopyTarget {
            let folder = ConfinedDir::open(&self.0).expect("a folder");
            let path = Path::new("file");
            CopyTarget::resolve(folder, path, options, Arc::clone(cancelled)).expect("a target")
        }

        fn names(&self) -> Vec<OsString> {
            ConfinedDir::open(&self.0).and_then(|folder| folder.list_names()).expect("a list")
        }
    }

    impl Drop for TargetFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn entry() -> FileEntry {
        FileEntry {
            path: "".into(),
            folder: false,
            size_bytes: Some(5),
            mode: 0o644,
            modified_ns: 7,
        }
    }

    #[test]
    fn the_second_of_two_copies_to_one_name_is_refused_before_it_begins() {
        let scratch = TargetFolder::new("two");
        let mut first = scratch.target(TargetRequest::default(), &Arc::default());
        first.add_entries(vec![entry()]).expect("free");
        let mut second = scratch.target(TargetRequest::default(), &Arc::default());
        let waiting = std::thread::spawn(move || second.add_entries(vec![entry()]).map(drop));
        let (partial, _) = first.entries[0].partial.take().expect("locked");
        let mut block = BlockBuffer::new().expect("memory");
        partial.write(0, &mut block, 5).expect("written");
        partial.set_metadata(&entry(), 5).expect("set");
        partial.commit().expect("renamed");
        drop(partial);
        let refused = waiting.join().expect("it ends").expect_err("the name is taken");
        assert!(refused.contains("--overwrite"), "{refused}");
        assert_eq!(scratch.names(), ["file"], "nothing is left over");
    }

    #[test]
    fn a_path_that_is_listed_twice_is_refused_without_waiting_for_its_own_lock() {
        let scratch = TargetFolder::new("twice");
        let mut target = scratch.target(TargetRequest::default(), &Arc::default());
        target.add_entries(vec![entry()]).expect("free");
        let again = FileEntry { path: "./".into(), ..entry() };
        let refused = target.add_entries(vec![again]).expect_err("the second");
        assert!(refused.contains("twice"), "{refused}");
    }

    #[test]
    fn a_copy_waits_for_another_one_that_holds_the_file_and_can_be_cancelled() {
        let scratch = TargetFolder::new("wait");
        let mut first = scratch.target(TargetRequest::default(), &Arc::default());
        first.add_entries(vec![entry()]).expect("free");
        let cancelled = Arc::new(AtomicBool::new(true));
        let mut second = scratch.target(TargetRequest::default(), &cancelled);
        let refused = second.add_entries(vec![entry()]).expect_err("held");
        assert!(refused.contains("cancelled"), "{refused}");
        drop(first);
        assert!(scratch.names().is_empty(), "a copy that wrote nothing leaves nothing");
        second.cancelled.store(false, Ordering::Relaxed);
        second.add_entries(vec![entry()]).expect("free again");
    }

    #[test]
    fn a_copy_whose_name_is_taken_by_another_program_leaves_nothing() {
        let scratch = TargetFolder::new("taken");
        let mut target = scratch.target(TargetRequest::default(), &Arc::default());
        target.add_entries(vec![entry()]).expect("free");
        std::fs::write(scratch.0.join("file"), "theirs").expect("a file");
        let (partial, _) = target.entries[0].partial.take().expect("locked");
        let refused = partial.commit().expect_err("taken").to_string();
        assert!(refused.contains("--overwrite"), "{refused}");
        assert_eq!(scratch.names(), ["file"], "nothing is left over");
        assert_eq!(std::fs::read(scratch.0.join("file")).expect("there"), b"theirs");
    }
}
