//! The folder beside the archive where an agent keeps what must outlive it: the lock, the spool of
//! runs under way, the ballast, and who has been told of what.
//!
//! The lock is the kernel's, on an open file, so it cannot be left behind. The ballast is room on
//! the disk that is given up when there is none left: what is measured already still fits then.

use crate::fail::{ARCHIVE, Fail, HOST};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Room for the results of some runs, and for the log of the archive.
pub const BALLAST_BYTES: usize = 16 << 20;
/// Written at a time.
const PIECE: usize = 1 << 20;

/// The folder of one agent, held.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// The folder that belongs to this archive, and to nobody else as long as this value lives.
    pub fn of(archive: &Path) -> Result<Folder, Fail> {
        let path = beside(archive);
        let cannot = |error: io::Error| {
            let what = format!("cannot use the agent's folder {}", path.display());
            let mut fail = Fail::new(HOST, what);
            fail.causes.push(error.to_string());
            fail.hint(Some(
                "make the folder of the archive writable for the agent's user",
            ))
        };
        fs::create_dir_all(path.join("spool")).map_err(cannot)?;
        let lock = open(&path.join("lock")).map_err(cannot)?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let what = format!("another agent uses the archive {}", archive.display());
                Err(Fail::new(ARCHIVE, what).hint(Some(
                    "one agent for each archive: stop the other one, or name another `archive` in \
                     [agent]",
                )))
            }
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn spool(&self) -> PathBuf {
        self.path.join("spool")
    }
}

/// `archive.sqlite3.agent`.
fn beside(archive: &Path) -> PathBuf {
    let mut name = archive
        .file_name()
        .map_or_else(|| OsString::from("archive"), OsString::from);
    name.push(".agent");
    archive.with_file_name(name)
}

/// For reading and writing, for nobody else, made where it is not there.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    options.open(path)
}

/// Writes a small file so that a reader finds the old text or the new one, whatever happens.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// The text of a small file; none where there is no such file.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    match File::open(path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(bytes_max).read_to_string(&mut text)?;
            Ok(Some(text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Room that is kept on the disk of the archive.
#[derive(Debug)]
pub struct Ballast {
    path: PathBuf,
}

impl Ballast {
    pub fn new(folder: &Folder) -> Self {
        Ballast {
            path: folder.spool().join("ballast"),
        }
    }

    /// Whether the room is kept now; makes it where it is not.
    pub fn keep(&self) -> bool {
        let whole = |it: fs::Metadata| it.len() >= BALLAST_BYTES as u64;
        if fs::metadata(&self.path).is_ok_and(whole) {
            return true;
        }
        let made = self.make();
        if made.is_err() {
            // A part of it would keep room from results and help nobody.
            let _ = fs::remove_file(&self.path);
        }
        made.is_ok()
    }

    fn make(&self) -> io::Result<()> {
        let mut file = open(&self.path)?;
        // Holes and compressed zeros keep no room.
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let mut piece = Vec::with_capacity(PIECE);
        while piece.len() < PIECE {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            piece.extend_from_slice(&(word ^ (word >> 33)).to_le_bytes());
        }
        for _ in 0..BALLAST_BYTES / PIECE {
            file.write_all(&piece)?;
        }
        file.sync_all()
    }

    /// Gives the room up; whether there was any.
    pub fn free(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let first = Folder::of(&archive).expect("free");
        let second = Folder::of(&archive).expect_err("taken");
        assert!(second.message.contains("another agent"), "{second:?}");
        drop(first);
        Folder::of(&archive).expect("free again");
        fs::remove_dir_all(&at).expect("clean");
    }

    #[test]
    fn the_ballast_is_made_given_up_and_made_again() {
        let at = place("ballast");
        let folder = Folder::of(&at.join("a.sqlite3")).expect("free");
        let ballast = Ballast::new(&folder);
        assert!(ballast.keep() && ballast.keep());
        assert!(ballast.free());
        assert!(!ballast.free(), "it is gone already");
        assert!(ballast.keep());
        fs::remove_dir_all(&at).expect("clean");
    }

    #[test]
    fn a_small_file_is_replaced_whole() {
        let at = place("replace");
        let path = at.join("told.json");
        assert_eq!(read(&path, 100).expect("readable"), None);
        replace(&path, "one").expect("written");
        replace(&path, "two").expect("written");
        assert_eq!(read(&path, 100).expect("readable").as_deref(), Some("two"));
        fs::remove_dir_all(&at).expect("clean");
    }
}
