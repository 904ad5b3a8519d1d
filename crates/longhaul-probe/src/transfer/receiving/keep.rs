//! Whole files are told to the disk and get their names: a long one at once, short ones many at a
//! time, since each visit to the disk costs the same however little it brings.

use super::{Receiving, lock};
use crate::transfer::counters::timed;
use crate::transfer::partial::Partial;
use crate::transfer::place::cannot_write;
use longhaul_sys::beneath::{Folder, keep_file_system};
use longhaul_sys::host;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are kept together; each is open until then.
const MOST_TOGETHER: usize = 128;
/// Fewer are told to the disk one by one: a visit for all of a file system also keeps what other
/// programs wrote there.
const LEAST_TOGETHER: usize = 8;
/// From here on a visit for all of a file system tells its errors.
const TELLS_ERRORS: (u32, u32) = (5, 8);

/// Short files that are whole but for their names.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    /// The file system of the target, opened before anything was written to it; absent: its errors
    /// would not be told.
    all: Option<(File, u64)>,
    whole: Mutex<Vec<Whole>>,
}

#[derive(Debug)]
pub(super) struct Whole {
    pub file: u32,
    pub partial: Arc<Partial>,
}

impl Keeping {
    pub fn new(folder: &Folder) -> io::Result<Keeping> {
        if !tells_errors(&host::kernel()) {
            return Ok(Keeping::default());
        }
        let listing = folder.listing()?;
        let device = listing.metadata()?.dev();
        Ok(Keeping {
            all: Some((listing, device)),
            whole: Mutex::default(),
        })
    }

    /// Takes one more; gives back all of them once they are enough.
    fn add(&self, whole: Whole) -> Option<Vec<Whole>> {
        let mut held = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        held.push(whole);
        (held.len() >= MOST_TOGETHER).then(|| std::mem::take(&mut *held))
    }

    fn take(&self) -> Vec<Whole> {
        let mut held = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *held)
    }
}

impl Receiving {
    /// Keeps a whole file, or puts it to those that wait for company.
    pub(super) fn keep(&self, whole: Whole, size_bytes: u64) -> io::Result<()> {
        let entry = &self.target.entries[whole.file as usize].entry;
        whole.partial.settle(entry, size_bytes)?;
        if whole.partial.is_long() || self.files.len() == 1 {
            return self.keep_these(&[whole]).map_err(|(_, error)| error);
        }
        let enough = self.keeping.add(whole);
        enough.map_or(Ok(()), |enough| {
            self.keep_these(&enough).map_err(|(_, error)| error)
        })
    }

    /// Keeps those that still wait. False: the halt knows why not.
    pub(super) fn keep_rest(&self) -> bool {
        let kept = self.keep_these(&self.keeping.take());
        if let Err((path, error)) = &kept {
            self.common.halt.fail(cannot_write(path, error));
        }
        kept.is_ok()
    }

    /// On the disk first, then under their names, then the names: so nothing half-written is ever
    /// under a name, whenever the power fails.
    fn keep_these(&self, whole: &[Whole]) -> Result<(), (PathBuf, io::Error)> {
        let Some((folder, _)) = &self.target.place else {
            return Ok(());
        };
        timed(&self.common.sync, || {
            let together = self.all_at_once(whole)?;
            let replace = self.target.wish.overwrite;
            let mut names = BTreeSet::new();
            for it in whole {
                let path = &self.target.entries[it.file as usize].path;
                let named = if together { Ok(()) } else { it.partial.sync() };
                named
                    .and_then(|()| it.partial.rename(folder, replace))
                    .map_err(|error| (path.clone(), error))?;
                names.insert(path.parent().unwrap_or(Path::new("")));
            }
            for parent in names {
                folder
                    .folder(parent)
                    .and_then(|it| it.listing()?.sync_all())
                    .map_err(|error| (parent.to_owned(), error))?;
            }
            for it in whole {
                let path = &self.target.entries[it.file as usize].path;
                it.partial
                    .forget_journal(folder)
                    .map_err(|error| (path.clone(), error))?;
                lock(&self.files[it.file as usize]).open = None;
            }
            Ok(())
        })
    }

    /// Whether all of them are on the disk by one visit; where that cannot be, each needs its own.
    fn all_at_once(&self, whole: &[Whole]) -> Result<bool, (PathBuf, io::Error)> {
        let Some((all, device)) = &self.keeping.all else {
            return Ok(false);
        };
        let same = |it: &Whole| it.partial.device().is_ok_and(|its| its == *device);
        if whole.len() < LEAST_TOGETHER || !whole.iter().all(same) {
            return Ok(false);
        }
        keep_file_system(all).map_err(|error| (PathBuf::from("the target"), error))?;
        Ok(true)
    }
}

fn tells_errors(kernel: &str) -> bool {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    next()
        .zip(next())
        .is_some_and(|version| version >= TELLS_ERRORS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_and_unknown_ones_are_not_trusted_with_errors() {
        for (kernel, tells) in [
            ("6.1.0-18-amd64", true),
            ("5.8.0", true),
            ("5.7.19", false),
            ("4.18.0-553.el8", false),
            ("", false),
            ("x.y", false),
        ] {
            assert_eq!(tells_errors(kernel), tells, "{kernel}");
        }
    }
}
