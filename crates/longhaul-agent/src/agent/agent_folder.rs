//! The agent's folder next to the archive: lock, spool of running runs, and notification log.
//!
//! The lock is a kernel lock on an open file, so a crash releases it.

use crate::agent_error::AgentError;
use longhaul_probe::file_lock::lock_within;
use longhaul_store::create_private_folder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of one agent, locked.
#[derive(Debug)]
pub struct AgentFolder {
    path: PathBuf,
    _lock: File,
}

impl AgentFolder {
    /// Locks the folder of this archive. The lock is held as long as the returned value lives.
    ///
    /// Waits up to `wait` for another process to release it: if an agent is killed, a run that it
    /// has just forked still holds the lock until that process executes its program.
    pub fn acquire(archive: &Path, wait: Duration) -> Result<AgentFolder, AgentError> {
        let path = agent_folder_path(archive);
        let cannot = |source| AgentError::Folder { path: path.clone(), source };
        create_private_folder(&path.join("spool")).map_err(cannot)?;
        let lock = open_private_file(&path.join("lock")).map_err(cannot)?;
        match lock_within(&lock, wait) {
            Ok(()) => Ok(AgentFolder { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(AgentError::ArchiveInUse(archive.to_owned())),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }

    pub fn file_path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn spool_path(&self) -> PathBuf {
        self.path.join("spool")
    }
}

/// Returns the path of the folder, for example `archive.sqlite3.agent`.
pub fn agent_folder_path(archive: &Path) -> PathBuf {
    let mut name = archive.file_name().map_or_else(|| OsString::from("archive"), OsString::from);
    name.push(".agent");
    archive.with_file_name(name)
}

/// Opens a file for reading and writing, and creates it with mode 0600 if it does not exist.
pub fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

/// Loads a small JSON file of the agent's folder. An absent or unreadable one is `None`.
pub fn load_json<T: DeserializeOwned>(path: &Path, bytes_max: u64) -> Option<T> {
    let file = File::open(path).ok()?;
    serde_json::from_reader(BufReader::new(file.take(bytes_max))).ok()
}

/// Replaces a file, which then belongs to the owner of its folder. A reader sees either the old or
/// the new contents, even after a power failure.
pub fn replace_private_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    let owner = folder.metadata()?;
    // Only root may give a file away; others are the owner already.
    let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    folder.sync_all()
}

/// Replaces a JSON file. If the disk is full, its content is lost at the next restart.
pub fn save_json(path: &Path, value: &impl Serialize) {
    let _ = serde_json::to_vec(value)
        .map_err(io::Error::from)
        .and_then(|text| replace_private_file(path, &text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("longhaul-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        path
    }

    #[test]
    fn one_agent_has_an_archive_and_the_next_one_may_have_it_later() {
        let at = place("lock");
        let archive = at.join("a.sqlite3");
        let first = AgentFolder::acquire(&archive, Duration::ZERO).expect("free");
        for folder in [first.spool_path(), first.file_path("")] {
            let mode = fs::metadata(folder).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        let second = AgentFolder::acquire(&archive, Duration::ZERO).expect_err("taken");
        assert!(second.to_string().contains("another agent"), "{second:?}");
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(first);
        });
        AgentFolder::acquire(&archive, Duration::from_secs(60)).expect("free again");
        release.join().expect("released");
        fs::remove_dir_all(&at).expect("clean");
    }

    #[test]
    fn a_small_file_is_replaced_whole() {
        let at = place("replace");
        let path = at.join("told.json");
        assert_eq!(load_json::<String>(&path, 100), None);
        save_json(&path, &"one");
        save_json(&path, &"two");
        assert_eq!(load_json(&path, 100), Some("two".to_owned()));
        fs::remove_dir_all(&at).expect("clean");
    }
}
