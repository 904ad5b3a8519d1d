//! Where a copy goes: the names it will have, and what stands there already.

use super::digest::BlockSum;
use super::names::{self, joined};
use super::partial::Partial;
use crate::wire::{Entered, Entry};
use longhaul_sys::beneath::{Folder, Kind, Seen};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is asked of a target.
#[derive(Debug, Clone)]
pub(crate) struct TargetWish {
    /// Below the folder that was opened.
    pub path: PathBuf,
    /// Last part of the source's name.
    pub name: Option<String>,
    /// The source is a folder.
    pub folder: bool,
    pub overwrite: bool,
    pub direct: bool,
    /// Nothing is written under a name that stays.
    pub dry: bool,
}

/// The target, with all that will be written there.
#[derive(Debug)]
pub(crate) struct Target {
    /// Absent: standard output.
    pub(super) place: Option<(Arc<Folder>, PathBuf)>,
    pub(super) wish: TargetWish,
    pub(super) entries: Vec<Planned>,
    /// Whoever asked for it is gone: no file is waited for, or looked through, any more.
    given_up: Arc<AtomicBool>,
}

/// One file or folder to be.
#[derive(Debug)]
pub(super) struct Planned {
    pub entry: Entry,
    /// Below the target's folder.
    pub path: PathBuf,
    /// It is there already, and is not sent.
    pub there: bool,
    /// What an earlier copy has left of it.
    pub begun: Option<(Partial, Vec<(u64, BlockSum)>)>,
}

impl Target {
    /// Settles the name. The error says what stands in the way.
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
            // A scratch file stands where the file would.
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

    /// Standard output.
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

    /// Takes the next entries: makes folders, and looks what is there of files.
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

    /// Blocks of a file that are there, from `from` on.
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

    /// Whether what stands there is the file already; the error says why it cannot be replaced.
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
        // What an earlier run of a copy of many files has finished is not sent again.
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
