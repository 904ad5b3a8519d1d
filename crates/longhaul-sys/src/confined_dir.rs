//! File access confined to a folder: no name ever leads outside it.
//!
//! A path is walked one component at a time, each opened relative to the previous one and never
//! through a symbolic link; `..`, absolute and empty paths are rejected before any system call.
//! This works on every kernel, and concurrent renames cannot redirect it.

use crate::syscall::check_status;
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};

/// A handle of an open folder.
#[derive(Debug)]
pub struct ConfinedDir(OwnedFd);

/// Metadata of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    pub kind: FileKind,
    pub size_bytes: u64,
    /// Permission bits only.
    pub mode: u32,
    /// Nanoseconds since 1970.
    pub modified_ns: i64,
    /// Time of the last change of content or metadata; it cannot be set.
    pub changed_ns: i64,
    pub inode: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Folder,
    Link,
    /// A device, pipe or socket.
    Special,
}

impl FileState {
    pub fn of_file(file: &File) -> io::Result<FileState> {
        let about = file.metadata()?;
        let kind = match about.file_type() {
            kind if kind.is_file() => FileKind::File,
            kind if kind.is_dir() => FileKind::Folder,
            kind if kind.is_symlink() => FileKind::Link,
            _ => FileKind::Special,
        };
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000) + nanos;
        Ok(FileState {
            kind,
            size_bytes: about.size(),
            mode: about.mode() & 0o777,
            modified_ns: nanos(about.mtime(), about.mtime_nsec()),
            changed_ns: nanos(about.ctime(), about.ctime_nsec()),
            inode: about.ino(),
        })
    }
}

/// Flags of intermediate folders: path only, and never through a link.
const STEP: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW);
const CREATED_MODE: Mode = Mode::from_bits_truncate(0o600);

impl ConfinedDir {
    /// Opens a folder chosen by the local user; follows symbolic links.
    pub fn open(path: &Path) -> io::Result<ConfinedDir> {
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let folder = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Ok(ConfinedDir(folder.into()))
    }

    /// Opens a regular file for reading; fails for anything else without blocking.
    pub fn read(&self, path: &Path, direct: bool) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | direct_flag(direct);
        require_regular(self.open_below(path, flags)?)
    }

    /// Opens a file for reading and writing, and creates it if missing.
    pub fn write(&self, path: &Path, direct: bool) -> io::Result<File> {
        let create = OFlag::O_RDWR | OFlag::O_CREAT;
        let flags = create | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | direct_flag(direct);
        require_regular(self.open_below(path, flags)?)
    }

    /// Returns the metadata of a path; `None` if nothing exists there.
    pub fn stat(&self, path: &Path) -> io::Result<Option<FileState>> {
        if path.as_os_str().is_empty() {
            return FileState::of_file(&File::from(self.0.try_clone()?)).map(Some);
        }
        match self.open_below(path, OFlag::O_PATH) {
            Ok(file) => FileState::of_file(&file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a folder below this one; the empty path is this one.
    pub fn open_subfolder(&self, path: &Path) -> io::Result<ConfinedDir> {
        if path.as_os_str().is_empty() {
            return Ok(ConfinedDir(self.0.try_clone()?));
        }
        Ok(ConfinedDir(self.open_below(path, STEP)?.into()))
    }

    pub fn make_folder(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.open_parent(path)?;
        Ok(mkdirat(&parent.0, name.as_os_str(), Mode::from_bits_truncate(0o755))?)
    }

    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.open_parent(path)?;
        Ok(unlinkat(&parent.0, name.as_os_str(), UnlinkatFlags::NoRemoveDir)?)
    }

    /// Renames a file atomically; without `replace`, fails if the new name exists. The rename
    /// survives a power failure once [`ConfinedDir::open_for_sync`] has been synced.
    pub fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        let (from_parent, from) = self.open_parent(from)?;
        let (to_parent, to) = self.open_parent(to)?;
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::RENAME_NOREPLACE };
        Ok(renameat2(&from_parent.0, from.as_os_str(), &to_parent.0, to.as_os_str(), flags)?)
    }

    /// Returns the sorted names in this folder, without `.` and `..`.
    pub fn list_names(&self) -> io::Result<Vec<OsString>> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let entries = std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name()));
        let mut names = entries.collect::<io::Result<Vec<OsString>>>()?;
        names.sort();
        Ok(names)
    }

    /// Opens this folder as a file, to sync its entries or set its times and mode.
    pub fn open_for_sync(&self) -> io::Result<File> {
        open_at(self, OsStr::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY).map(File::from)
    }

    fn open_below(&self, path: &Path, flags: OFlag) -> io::Result<File> {
        let (parent, name) = self.open_parent(path)?;
        open_at(&parent, &name, flags | OFlag::O_NOFOLLOW).map(File::from)
    }

    /// Opens the parent folder of a path; returns it with the last component.
    fn open_parent(&self, path: &Path) -> io::Result<(ConfinedDir, OsString)> {
        let parts: Vec<&OsStr> = path_components(path)?;
        let (name, way) = parts.split_last().ok_or_else(empty_name_error)?;
        let mut folder = ConfinedDir(self.0.try_clone()?);
        for part in way {
            folder = ConfinedDir(open_at(&folder, part, STEP)?);
        }
        Ok((folder, (*name).to_owned()))
    }
}

fn direct_flag(direct: bool) -> OFlag {
    if direct { OFlag::O_DIRECT } else { OFlag::empty() }
}

fn require_regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

fn empty_name_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the name is empty")
}

/// Splits a path into its components; rejects `..`, `.` and roots.
fn path_components(path: &Path) -> io::Result<Vec<&OsStr>> {
    let part = |component| match component {
        Component::Normal(part) => Ok(part),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "the path leads outside its folder")),
    };
    path.components().map(part).collect()
}

/// The mode counts only where the flags create.
fn open_at(folder: &ConfinedDir, name: &OsStr, flags: OFlag) -> io::Result<OwnedFd> {
    let opened = openat(&folder.0, name, flags | OFlag::O_CLOEXEC, CREATED_MODE);
    opened.map_err(|error| match error {
        Errno::ELOOP => io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a symbolic link, and links are not followed",
        ),
        _ => error.into(),
    })
}

/// Starts write-back of a range without waiting for it, so that a later sync is fast.
pub fn start_range_writeback(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (offset, bytes) = (offset as libc::off64_t, bytes as libc::off64_t);
    // SAFETY: sync_file_range touches no memory of ours.
    check_status(unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn scratch(name: &str) -> (std::path::PathBuf, ConfinedDir) {
        let path = std::env::temp_dir().join(format!("beneath-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("inside/deep")).expect("a scratch folder");
        std::fs::write(path.join("secret"), "outside").expect("a file");
        let folder = ConfinedDir::open(&path.join("inside")).expect("it is there");
        (path, folder)
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let (path, folder) = scratch("out");
        std::fs::write(path.join("inside/deep/file"), "inside").expect("a file");
        symlink("..", path.join("inside/up")).expect("a link");
        symlink(path.join("secret"), path.join("inside/link")).expect("a link");
        let outside = path.join("secret");
        let absolute = outside.to_str().expect("plain");
        for name in
            ["../secret", "deep/../../secret", "up/secret", "link", absolute, "", ".", "..", "a\0b"]
        {
            assert!(folder.read(Path::new(name), false).is_err(), "{name:?}");
            assert!(folder.write(Path::new(name), false).is_err(), "{name:?}");
            assert!(folder.make_folder(Path::new(name)).is_err(), "{name:?}");
        }
        assert!(folder.read(Path::new("deep/file"), false).is_ok());
        assert!(folder.read(Path::new("deep"), false).is_err(), "a folder");
        assert_eq!(
            folder.stat(Path::new("link")).expect("it is there").map(|seen| seen.kind),
            Some(FileKind::Link)
        );
        assert_eq!(folder.stat(Path::new("nothing")).expect("fine"), None);
        assert_eq!(std::fs::read(outside).expect("untouched"), b"outside");
        std::fs::remove_dir_all(path).expect("gone");
    }

    #[test]
    fn a_taken_name_is_replaced_only_on_demand() {
        let (path, folder) = scratch("rename");
        let name = Path::new;
        drop(folder.write(name("new"), false).expect("made"));
        drop(folder.write(name("deep/old"), false).expect("made"));
        assert!(folder.rename(name("new"), name("deep/old"), false).is_err());
        folder.rename(name("new"), name("deep/old"), true).expect("replaced");
        let listing = folder.open_for_sync().expect("open");
        listing.sync_all().expect("kept");
        assert_eq!(folder.list_names().expect("read"), ["deep"]);
        std::fs::remove_dir_all(path).expect("gone");
    }
}
