//! The source of a copy: one file, a folder with its content, or a stream of unknown length.

use super::relative_names::{is_hidden, join_paths};
use longhaul_probe::wire::{FileEntry, MAX_ENTRIES};
use longhaul_sys::confined_dir::{ConfinedDir, FileKind, FileState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The maximum number of files and folders of one copy.
pub(super) const MAX_COPIED_FILES: usize = 1_000_000;
const MAX_DEPTH: usize = 200;
/// JSON size of an entry without its path: field names and the longest numbers.
const FIELDS_BYTES: usize = 130;

/// The listed source.
#[derive(Debug, Default)]
pub(crate) struct CopySource {
    /// Folder and path; `None`: standard input.
    pub(super) location: Option<(Arc<ConfinedDir>, PathBuf)>,
    pub(super) direct: bool,
    /// True if blocks must be sent in order.
    pub in_order: bool,
    pub(super) entries: Vec<FileEntry>,
    /// File state at listing time, by entry.
    pub(super) listed_states: Vec<Option<FileState>>,
    /// Last component of the source's path, if any.
    pub name: Option<String>,
    pub left_out: u64,
}

impl CopySource {
    /// Lists the files below `path`, until `cancelled` is set. The error says what was tried.
    pub fn list(
        folder: ConfinedDir,
        path: &Path,
        name: String,
        direct: bool,
        cancelled: &AtomicBool,
    ) -> Result<CopySource, String> {
        let name = (!name.is_empty()).then_some(name);
        let mut source = CopySource { direct, name, ..CopySource::default() };
        source.add_tree(&folder, path, "", 0, cancelled)?;
        if source.entries.is_empty() {
            return Err(format!("{} is neither a file nor a folder", path.display()));
        }
        source.location = Some((Arc::new(folder), path.to_owned()));
        Ok(source)
    }

    /// Returns standard input as a source.
    pub fn stream() -> CopySource {
        CopySource {
            in_order: true,
            entries: vec![FileEntry { mode: 0o644, ..FileEntry::default() }],
            listed_states: vec![None],
            ..CopySource::default()
        }
    }

    pub fn entries(&self) -> &[FileEntry] {
        &self.entries
    }

    pub fn is_folder(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.folder)
    }

    fn add_tree(
        &mut self,
        folder: &ConfinedDir,
        base: &Path,
        path: &str,
        depth: usize,
        cancelled: &AtomicBool,
    ) -> Result<(), String> {
        let whole = join_paths(base, Path::new(path));
        let failed =
            |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", whole.display());
        let seen = folder.stat(&whole).map_err(|error| failed(&error))?;
        let seen = seen.ok_or_else(|| failed(&"no such file"))?;
        if cancelled.load(Ordering::Relaxed) {
            return Err(failed(&"the copy was cancelled"));
        }
        if self.entries.len() >= MAX_COPIED_FILES || depth > MAX_DEPTH {
            return Err(failed(&"the folder has more entries than a copy supports"));
        }
        match seen.kind {
            FileKind::File => self.add_entry(path, false, seen),
            FileKind::Folder => {
                self.add_entry(path, true, seen);
                let names = folder.open_subfolder(&whole).and_then(|folder| folder.list_names());
                for name in names.map_err(|error| failed(&error))? {
                    let name = name.to_str().ok_or_else(|| {
                        let name = name.display();
                        failed(&format!("it contains the name {name}, which is not UTF-8"))
                    })?;
                    if !is_hidden(name) {
                        let inner = join_paths(Path::new(path), Path::new(name));
                        let inner = inner.to_string_lossy();
                        self.add_tree(folder, base, &inner, depth + 1, cancelled)?;
                    }
                }
            }
            FileKind::Link | FileKind::Special => self.left_out += 1,
        }
        Ok(())
    }

    fn add_entry(&mut self, path: &str, folder: bool, seen: FileState) {
        self.entries.push(FileEntry {
            path: path.into(),
            folder,
            size_bytes: (!folder).then_some(seen.size_bytes),
            mode: seen.mode,
            modified_ns: seen.modified_ns,
        });
        self.listed_states.push((!folder).then_some(seen));
    }
}

/// Returns the first entries, at least one, whose JSON fits into a message of `max_bytes`.
pub(super) fn take_entry_batch(entries: &[FileEntry], max_bytes: usize) -> Vec<FileEntry> {
    let mut bytes = 0;
    let mut fits = |entry: &FileEntry| {
        let first = bytes == 0;
        let path = entry.path.as_received();
        bytes += path.len() + FIELDS_BYTES;
        // Characters that JSON escapes with six bytes are rare; six bytes are counted for each.
        let steered = path.chars().filter(|c| c.is_control()).count();
        let quoted = path.matches(['"', '\\']).count();
        bytes += 5 * steered + quoted;
        first || bytes < max_bytes
    };
    let next = entries.iter().take(MAX_ENTRIES);
    next.take_while(|entry| fits(entry)).cloned().collect()
}
