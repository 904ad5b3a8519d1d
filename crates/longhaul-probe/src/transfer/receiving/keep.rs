//! Syncs complete files to disk and renames them: a long file at once, short ones in batches, since
//! the disk then works on all of them while the first is awaited.

use super::{Receiving, lock};
use crate::transfer::counters::timed;
use crate::transfer::partial::Partial;
use crate::transfer::place::cannot_write;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of files in a batch; each stays open until then.
const MOST_TOGETHER: usize = 128;

/// Short files that are complete but not renamed yet.
#[derive(Debug, Default)]
pub(super) struct Keeping(Mutex<Vec<Whole>>);

#[derive(Debug)]
pub(super) struct Whole {
    pub file: u32,
    pub partial: Arc<Partial>,
}

/// The path that could not be committed, with the error.
type Failed = (PathBuf, io::Error);

impl Keeping {
    /// Adds a file; returns the whole batch once it is full.
    fn add(&self, whole: Whole) -> Option<Vec<Whole>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.push(whole);
        (held.len() >= MOST_TOGETHER).then(|| std::mem::take(&mut *held))
    }

    fn take(&self) -> Vec<Whole> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *held)
    }
}

impl Receiving {
    /// Commits a complete file, or adds it to the batch. Returns false if the halt has a failure.
    pub(super) fn keep(&self, whole: Whole) -> bool {
        if whole.partial.is_long() || self.files.len() == 1 {
            return self.kept(&[whole]);
        }
        let enough = self.keeping.add(whole);
        enough.is_none_or(|enough| self.kept(&enough))
    }

    /// Commits the remaining files; returns false if the halt has a failure.
    pub(super) fn keep_rest(&self) -> bool {
        self.kept(&self.keeping.take())
    }

    fn kept(&self, whole: &[Whole]) -> bool {
        let kept = timed(&self.common.sync, || self.keep_these(whole));
        if let Err((path, error)) = &kept {
            self.common.halt.fail(cannot_write(path, error));
        }
        kept.is_ok()
    }

    /// Syncs the files, then renames them, then syncs the folders: so no incomplete file ever has
    /// its final name, even after a power failure.
    fn keep_these(&self, whole: &[Whole]) -> Result<(), Failed> {
        let Some((folder, _)) = &self.target.place else {
            return Ok(());
        };
        let path = |it: &Whole| self.target.entries[it.file as usize].path.as_path();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        for it in whole {
            it.partial.begin_keeping();
        }
        for it in whole {
            it.partial.sync().map_err(failed(path(it)))?;
        }
        let mut parents = BTreeSet::new();
        for it in whole {
            let replace = self.target.wish.overwrite;
            let renamed = it.partial.rename(folder, replace);
            renamed.map_err(failed(path(it)))?;
            parents.insert(path(it).parent().unwrap_or(Path::new("")));
        }
        for parent in parents {
            let listing = folder.folder(parent).and_then(|it| it.listing());
            let kept = listing.and_then(|it| it.sync_all());
            kept.map_err(failed(parent))?;
        }
        for it in whole {
            let forgotten = it.partial.forget_journal(folder);
            forgotten.map_err(failed(path(it)))?;
            lock(&self.files[it.file as usize]).open = None;
        }
        Ok(())
    }
}
