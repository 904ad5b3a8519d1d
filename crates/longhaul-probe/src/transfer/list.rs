//! The source of a copy: one file, a folder with its content, or a stream of unknown length.

use super::names::{is_hidden, joined};
use crate::wire::Entry;
use longhaul_sys::beneath::{Folder, Kind, Seen};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of files and folders of one copy.
const MOST_LISTED: usize = 1_000_000;
const DEEPEST: usize = 200;

/// The listed source.
#[derive(Debug)]
pub(crate) struct Source {
    /// Folder and path; `None`: standard input.
    pub(super) place: Option<(Arc<Folder>, PathBuf)>,
    pub(super) direct: bool,
    /// True if blocks must be sent in order.
    pub in_order: bool,
    pub(super) entries: Vec<Entry>,
    /// File state at listing time, by entry.
    pub(super) seen: Vec<Option<Seen>>,
    /// Last component of the source's path, if any.
    pub name: Option<String>,
    pub left_out: u64,
}

impl Source {
    /// Lists the files below `folder`. The error says what was tried.
    pub fn list(folder: Folder, path: &Path, name: String, direct: bool) -> Result<Source, String> {
        let mut source = Source {
            place: None,
            direct,
            in_order: false,
            entries: Vec::new(),
            seen: Vec::new(),
            name: (!name.is_empty()).then_some(name),
            left_out: 0,
        };
        source.take(&folder, path, "", 0)?;
        if source.entries.is_empty() {
            return Err(format!("{} is neither file nor folder", path.display()));
        }
        source.place = Some((Arc::new(folder), path.to_owned()));
        Ok(source)
    }

    /// Returns standard input as a source.
    pub fn stream() -> Source {
        let entry = Entry {
            path: String::new(),
            folder: false,
            size_bytes: None,
            mode: 0o644,
            modified_ns: 0,
        };
        Source {
            place: None,
            direct: false,
            in_order: true,
            entries: vec![entry],
            seen: vec![None],
            name: None,
            left_out: 0,
        }
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn is_folder(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.folder)
    }

    fn take(
        &mut self,
        folder: &Folder,
        base: &Path,
        path: &str,
        depth: usize,
    ) -> Result<(), String> {
        let whole = joined(base, Path::new(path));
        let failed =
            |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", whole.display());
        let seen = folder.look(&whole).map_err(|error| failed(&error))?;
        let seen = seen.ok_or_else(|| failed(&"there is no such file"))?;
        if self.entries.len() >= MOST_LISTED || depth > DEEPEST {
            return Err(failed(&"the folder holds more than one copy can take"));
        }
        match seen.kind {
            Kind::File => self.entry(path, false, seen),
            Kind::Folder => {
                self.entry(path, true, seen);
                let names = folder.folder(&whole).and_then(|folder| folder.names());
                for name in names.map_err(|error| failed(&error))? {
                    let name = name.to_str().ok_or_else(|| {
                        let name = name.display();
                        failed(&format!("the name {name} in it is not UTF-8"))
                    })?;
                    if !is_hidden(name) {
                        let inner = joined(Path::new(path), Path::new(name));
                        self.take(folder, base, &inner.to_string_lossy(), depth + 1)?;
                    }
                }
            }
            Kind::Link | Kind::Special => self.left_out += 1,
        }
        Ok(())
    }

    fn entry(&mut self, path: &str, folder: bool, seen: Seen) {
        self.entries.push(Entry {
            path: path.to_owned(),
            folder,
            size_bytes: (!folder).then_some(seen.size_bytes),
            mode: seen.mode,
            modified_ns: seen.modified_ns,
        });
        self.seen.push((!folder).then_some(seen));
    }
}
