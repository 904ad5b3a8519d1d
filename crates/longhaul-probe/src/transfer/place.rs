//! The target of a copy: its file names, and the files that exist already.

use super::digest::BlockSum;
use super::names::{self, joined};
use super::partial::Partial;
use crate::wire::{Entered, Entry};
use longhaul_sys::beneath::{Folder, Kind, Seen};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Parameters of a target.
#[derive(Debug, Clone)]
pub(crate) struct TargetWish {
    /// Path below the opened folder.
    pub path: PathBuf,
    /// Last component of the source's path.
    pub name: Option<String>,
    /// The source is a folder.
    pub folder: bool,
    pub overwrite: bool,
    pub direct: bool,
    /// Dry run: no file keeps a name.
    pub dry: bool,
}

/// The target, with all entries to be written.
#[derive(Debug)]
pub(crate) struct Target {
    /// Folder and path; `None`: standard output.
    pub(super) place: Option<(Arc<Folder>, PathBuf)>,
    pub(super) wish: TargetWish,
    pub(super) entries: Vec<Planned>,
    /// Set when the requester is gone: waiting and verification end.
    given_up: Arc<AtomicBool>,
}

/// A file or folder to be created.
#[derive(Debug)]
pub(super) struct Planned {
    pub entry: Entry,
    /// Path below the target's folder.
    pub path: PathBuf,
    /// True if the file exists already and is not sent.
    pub there: bool,
    /// Data left by an earlier copy.
    pub begun: Option<(Partial, Vec<(u64, BlockSum)>)>,
}

impl Target {
    /// Resolves the target's path. The error names the obstacle.
    pub fn settle(
        folder: Folder,
        wish: TargetWish,
        given_up: Arc<AtomicBool>,
    ) -> Result<Target, String> {
        let failed = |path: &Path, why: &dyn Display| cannot_write(path, why);
        let seen = folder
            .look(&wish.path)
            .map_err(|e| failed(&wish.path, &e))?;
        let path = match (seen.map(|seen| seen.kind), &wish.name) {
            (Some(Kind::Folder), _) if wish.dry => wish.path.clone(),
            // The scratch file is created in the folder where the file would be.
            _ if wish.dry => wish.path.parent().unwrap_or(&wish.path).to_owned(),
            (Some(Kind::Folder), Some(name)) => joined(&wish.path, &names::below(name)?),
            (Some(Kind::Folder), None) => {
                return Err(failed(
                    &wish.path,
                    &"a folder stands there; name a file in it",
                ));
            }
            _ => wish.path.clone(),
        };
        Ok(Target {
            place: Some((Arc::new(folder), path)),
            wish,
            entries: Vec::new(),
            given_up,
        })
    }

    /// Returns standard output as a target.
    pub fn stream() -> Target {
        Target {
            place: None,
            wish: TargetWish {
                path: PathBuf::new(),
                name: None,
                folder: false,
                overwrite: false,
                direct: false,
                dry: false,
            },
            entries: Vec::new(),
            given_up: Arc::default(),
        }
    }

    /// Adds the next entries: creates folders, and checks for existing files.
    pub fn enter(&mut self, entries: Vec<Entry>) -> Result<Entered, String> {
        let mut entered = Entered::default();
        for entry in entries {
            let index = self.entries.len() as u32;
            let planned = self.plan(entry)?;
            if planned.there {
                entered.there.push(index);
            }
            if planned.begun.is_some() {
                entered.begun.push(index);
            }
            self.entries.push(planned);
        }
        Ok(entered)
    }

    /// Returns the existing blocks of a file, starting at `from`.
    pub fn held(&self, file: u32, from: u64, most: usize) -> Vec<(u64, [u8; 32])> {
        let planned = self.entries.get(file as usize);
        let left = planned.and_then(|planned| planned.begun.as_ref());
        let blocks = left.into_iter().flat_map(|(_, left)| left);
        let wanted = blocks.filter(|(index, _)| *index >= from);
        wanted
            .map(|(index, sum)| (*index, sum.inner))
            .take(most)
            .collect()
    }

    fn plan(&self, entry: Entry) -> Result<Planned, String> {
        let inner = names::below(&entry.path)?;
        let mut planned = Planned {
            path: inner.clone(),
            entry,
            there: false,
            begun: None,
        };
        let Some((folder, base)) = &self.place else {
            let plain = !planned.entry.folder && planned.path.as_os_str().is_empty();
            return plain
                .then_some(planned)
                .ok_or_else(|| "a folder cannot be written to standard output".to_owned());
        };
        planned.path = joined(base, &inner);
        if self.wish.dry {
            return Ok(planned);
        }
        let path = planned.path.clone();
        let failed = |why: &dyn Display| cannot_write(&path, why);
        let seen = folder.look(&path).map_err(|error| failed(&error))?;
        if planned.entry.folder {
            return match seen.map(|seen| seen.kind) {
                Some(Kind::Folder) => Ok(planned),
                Some(_) => Err(failed(&"something stands there that is no folder")),
                None => {
                    folder.make_folder(&path).map_err(|error| failed(&error))?;
                    Ok(planned)
                }
            };
        }
        planned.there = match seen {
            None => false,
            Some(seen) => self
                .is_there(seen, &planned.entry)
                .map_err(|why| failed(&why))?,
        };
        if !planned.there && Partial::is_begun(folder, &path) {
            let given_up = || self.given_up.load(Ordering::Relaxed);
            let wanted = (path.as_path(), self.wish.direct);
            let opened = Partial::open(folder, wanted, &planned.entry, &given_up);
            let begun = opened.map_err(|error| failed(&error))?;
            planned.begun = (!begun.1.is_empty()).then_some(begun);
        }
        Ok(planned)
    }

    /// Returns whether the existing file is already complete; the error says why it cannot be
    /// replaced.
    fn is_there(&self, seen: Seen, entry: &Entry) -> Result<bool, &'static str> {
        match seen.kind {
            Kind::Folder => return Err("a folder stands there"),
            Kind::Link => return Err("a symbolic link stands there"),
            Kind::Special => return Err("a device, pipe or socket stands there"),
            Kind::File => {}
        }
        if self.wish.overwrite {
            return Ok(false);
        }
        // Files completed by an earlier run of the same copy are not sent again.
        let same =
            entry.size_bytes == Some(seen.size_bytes) && entry.modified_ns == seen.modified_ns;
        if self.wish.folder && same {
            return Ok(true);
        }
        Err("a file stands there; `--overwrite` replaces it")
    }
}

pub(super) fn cannot_write(path: &Path, why: &dyn Display) -> String {
    format!("cannot write {}: {why}", path.display())
}
