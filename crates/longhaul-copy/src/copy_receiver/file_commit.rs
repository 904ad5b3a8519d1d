//! Syncs complete files to disk and renames them: a long file at once, short ones in batches, since
//! the disk then works on all of them while the first is awaited.

use super::CopyReceiver;
use crate::copy_target::cannot_write;
use crate::partial_file::PartialFile;
use crate::stage_counters::time_into;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of files in a batch; each stays open until then.
const MAX_BATCH: usize = 128;

/// A file whose blocks are all written.
#[derive(Debug)]
pub(super) struct CompleteFile {
    pub file: u32,
    pub partial: Arc<PartialFile>,
}

/// The path that could not be committed, with the error.
type CommitError = (PathBuf, io::Error);

impl CopyReceiver {
    /// Commits a complete file, or adds it to the batch. Returns false if the halt has a failure.
    pub(super) fn commit(&self, whole: CompleteFile) -> bool {
        if whole.partial.has_journal() || self.files.len() == 1 {
            return self.commit_files(&[whole]);
        }
        let mut batch = self.commit_batch.lock();
        batch.push(whole);
        if batch.len() < MAX_BATCH {
            return true;
        }
        let full = std::mem::take(&mut *batch);
        drop(batch);
        self.commit_files(&full)
    }

    /// Commits the remaining files; returns false if the halt has a failure.
    pub(super) fn commit_rest(&self) -> bool {
        let rest = std::mem::take(&mut *self.commit_batch.lock());
        self.commit_files(&rest)
    }

    fn commit_files(&self, whole: &[CompleteFile]) -> bool {
        let kept = time_into(&self.common.sync_time, || self.sync_and_rename(whole));
        if let Err((path, error)) = &kept {
            self.common.halt.fail(cannot_write(path, error));
        }
        kept.is_ok()
    }

    /// Syncs the files, then renames them, then syncs the folders: so no incomplete file ever has
    /// its final name, even after a power failure.
    fn sync_and_rename(&self, whole: &[CompleteFile]) -> Result<(), CommitError> {
        let Some((folder, _)) = &self.target.location else {
            return Ok(());
        };
        let path = |it: &CompleteFile| self.target.entries[it.file as usize].path.as_path();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        for it in whole {
            it.partial.start_writeback();
        }
        for it in whole {
            it.partial.sync().map_err(failed(path(it)))?;
        }
        let mut parents = BTreeSet::new();
        for it in whole {
            let replace = self.target.options.overwrite;
            let renamed = it.partial.rename(folder, replace);
            renamed.map_err(failed(path(it)))?;
            parents.insert(path(it).parent().unwrap_or(Path::new("")));
        }
        for parent in parents {
            let listing = folder.open_subfolder(parent).and_then(|it| it.open_for_sync());
            let kept = listing.and_then(|it| it.sync_all());
            kept.map_err(failed(parent))?;
        }
        for it in whole {
            let forgotten = it.partial.remove_journal(folder);
            forgotten.map_err(failed(path(it)))?;
            self.files[it.file as usize].lock().open = None;
        }
        Ok(())
    }
}
