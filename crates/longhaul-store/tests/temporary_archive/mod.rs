//! An archive of a single test.

use longhaul_store::Archive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// An archive in a folder of its own, empty at first and removed at the end.
pub struct TemporaryArchive(pub PathBuf);

impl TemporaryArchive {
    pub fn new() -> TemporaryArchive {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("archive-{}-{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        TemporaryArchive(folder.join("archive.sqlite3"))
    }

    /// Opens a connection. Each sees what the others have written.
    pub fn open(&self) -> Archive {
        Archive::open(&self.0).expect("the archive opens")
    }
}

impl Drop for TemporaryArchive {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().expect("a folder"));
    }
}
