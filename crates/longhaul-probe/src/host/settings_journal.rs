//! The journal of written settings, stored before they are written so that any crash can be undone.
//!
//! The file is replaced atomically and synced; its folder is locked during use.

use super::HostError;
use crate::file_lock::lock_within;
use longhaul_model::report::v1::host::{ChangeJournal, SettingChange};
use longhaul_sys::{host, netns};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SCHEMA: &str = "longhaul.host-journal/1";
const MAX_JOURNAL_BYTES: u64 = 1 << 20;
const LOCK_DEADLINE: Duration = Duration::from_secs(10);

/// A journal file, locked against other processes.
pub(super) struct LockedJournal<'a> {
    path: &'a Path,
    /// Locked until it is dropped.
    folder: File,
}

/// Returns the folder of the journal; for a bare name, the current directory.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl<'a> LockedJournal<'a> {
    /// Creates the folder and locks it; waits for other holders until a deadline. Removes what a
    /// killed process left.
    pub fn take(path: &'a Path) -> Result<LockedJournal<'a>, HostError> {
        let folder = folder_of(path);
        let failed = |what| move |source| journal_error(what, folder, source);
        fs::create_dir_all(folder).map_err(failed("create the folder"))?;
        let held = File::open(folder).map_err(failed("open the folder"))?;
        lock_within(&held, LOCK_DEADLINE).map_err(|error| match error {
            TryLockError::Error(source) => journal_error("lock the folder", folder, source),
            TryLockError::WouldBlock => {
                HostError::Busy { path: folder.to_owned(), waited_s: LOCK_DEADLINE.as_secs() }
            }
        })?;
        remove_if_present(&unfinished_path(path))
            .map_err(failed("remove an unfinished journal from"))?;
        Ok(LockedJournal { path, folder: held })
    }

    /// Reads the journal; `None` if there is none.
    pub fn load(&self) -> Result<Option<ChangeJournal>, HostError> {
        let unreadable = |why: String| HostError::Unreadable { path: self.path.to_owned(), why };
        let mut text = String::new();
        match File::open(self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(journal_error("open the journal", self.path, error)),
            Ok(file) => file
                .take(MAX_JOURNAL_BYTES + 1)
                .read_to_string(&mut text)
                .map_err(|error| unreadable(error.to_string()))?,
        };
        if text.len() as u64 > MAX_JOURNAL_BYTES {
            return Err(unreadable(format!("larger than {MAX_JOURNAL_BYTES} bytes")));
        }
        let journal: ChangeJournal =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        if journal.schema != SCHEMA {
            let why = format!("its schema is {:?}, expected {SCHEMA:?}", journal.schema);
            return Err(unreadable(why));
        }
        Ok(Some(journal))
    }

    /// Replaces the journal atomically and syncs it to disk; removes it if it has no changes.
    pub fn store(&self, journal: &ChangeJournal) -> Result<(), HostError> {
        if journal.changes.is_empty() {
            return self.remove();
        }
        let unfinished = unfinished_path(self.path);
        self.write(journal, &unfinished).map_err(|source| {
            // The unfinished file is unused and can usually be removed even if writing failed.
            let _ = fs::remove_file(&unfinished);
            journal_error("write the journal", self.path, source)
        })
    }

    fn write(&self, journal: &ChangeJournal, unfinished: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(journal)?;
        remove_if_present(unfinished)?;
        // A new file is created, so that another process's file of this name is not used.
        let mut file = File::create_new(unfinished)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(unfinished, self.path)?;
        self.folder.sync_all()
    }

    fn remove(&self) -> Result<(), HostError> {
        remove_if_present(self.path)
            .and_then(|()| self.folder.sync_all())
            .map_err(|source| journal_error("remove the journal", self.path, source))
    }
}

/// Returns whether there is a journal, or an unfinished one of a killed process.
pub(super) fn exists(path: &Path) -> bool {
    path.exists() || unfinished_path(path).exists()
}

fn unfinished_path(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn journal_error(what: &'static str, path: &Path, source: io::Error) -> HostError {
    HostError::Journal { what, path: path.to_owned(), source }
}

/// Creates an empty journal of this boot and network namespace.
pub(super) fn new_journal(now_rfc3339: &str) -> ChangeJournal {
    ChangeJournal {
        schema: SCHEMA.to_owned(),
        boot_id: host::boot_id(),
        net_namespace: read_net_namespace(),
        applied_at: now_rfc3339.to_owned(),
        changes: Vec::new(),
    }
}

fn read_net_namespace() -> Option<String> {
    netns::net_cookie().ok().map(|cookie| cookie.to_string())
}

/// Returns whether the journal is from another boot; an unknown boot counts as this one.
pub(super) fn is_of_another_boot(journal: &ChangeJournal) -> bool {
    match (&journal.boot_id, host::boot_id()) {
        (Some(theirs), Some(ours)) => *theirs != ours,
        _ => false,
    }
}

/// Fails if the journal is from another network namespace, whose settings it would restore here.
pub(super) fn check_namespace(journal: &ChangeJournal, path: &Path) -> Result<(), HostError> {
    match (&journal.net_namespace, read_net_namespace()) {
        (Some(theirs), Some(ours)) if *theirs != ours => {
            Err(HostError::OtherNamespace { path: path.to_owned(), theirs: theirs.clone(), ours })
        }
        _ => Ok(()),
    }
}

/// Adds `change`, which is about to be made; keeps the value before the first change.
pub(super) fn merge_change(journal: &mut ChangeJournal, change: &SettingChange) {
    let known = journal
        .changes
        .iter_mut()
        .find(|known| known.name == change.name && known.interface == change.interface);
    match known {
        Some(known) => {
            known.wanted.clone_from(&change.wanted);
            known.after = None;
            known.error = None;
        }
        None => journal.changes.push(change.clone()),
    }
}
