//! Folders for the files of this bench: in memory, or on the disk of the temporary files.

use crate::Outcome;
use crate::process;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The number of stores created so far.
static STORES: AtomicU32 = AtomicU32::new(0);
const LIMIT: Duration = Duration::from_secs(600);

/// A folder that is removed at the end.
pub struct Store {
    pub name: &'static str,
    folder: PathBuf,
}

impl Store {
    pub fn memory() -> Result<Store, String> {
        Store::new("tmpfs", Path::new("/dev/shm"))
    }

    pub fn disk() -> Result<Store, String> {
        Store::new("disk", &std::env::temp_dir())
    }

    fn new(name: &'static str, base: &Path) -> Result<Store, String> {
        let mut find = Command::new("findmnt");
        find.args(["-n", "-o", "FSTYPE", "-T"]).arg(base);
        let kinds = process::stdout_of(&mut find, LIMIT)?;
        // Of several mounts on one folder the last is visible.
        let kind = kinds.lines().last().unwrap_or_default().trim();
        if (kind == "tmpfs") != (name == "tmpfs") {
            return Err(format!("{} is {kind}, not a {name}", base.display()));
        }
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let folder = base.join(format!("longhaul-copy-{}-{number}", std::process::id()));
        let store = Store { name, folder };
        store.empty("there")?;
        Ok(store)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Creates the empty folder that the far end serves.
    pub fn empty(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.path(name);
        let failed = |e: std::io::Error| format!("cannot empty {}: {e}", folder.display());
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(failed)?;
        }
        std::fs::create_dir_all(&folder).map_err(failed)?;
        Ok(folder)
    }

    /// Creates a file of incompressible bytes, on the disk and not in the page cache.
    pub fn file(&self, name: &str, bytes: u64) -> Result<PathBuf, String> {
        let path = self.path(name);
        let failed = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        let noise = File::open("/dev/urandom").map_err(failed)?;
        let mut file = File::create(&path).map_err(failed)?;
        // The kernel's random generator is slow: a repeated piece of an odd length does as well for
        // disks.
        let mut piece = vec![0; 7_340_033];
        (&noise).read_exact(&mut piece).map_err(failed)?;
        let mut left = bytes;
        while left > 0 {
            let next = left.min(piece.len() as u64) as usize;
            file.write_all(&piece[..next]).map_err(failed)?;
            left -= next as u64;
        }
        file.sync_all().map_err(failed)?;
        self.forget(&path)?;
        Ok(path)
    }

    /// Drops a file that is on the disk from the page cache.
    pub fn forget(&self, path: &Path) -> Outcome {
        if self.name == "tmpfs" {
            return Ok(());
        }
        let mut dd = Command::new("dd");
        dd.arg(format!("if={}", path.display()))
            .args(["iflag=nocache", "count=0", "status=none"]);
        process::stdout_of(&mut dd, LIMIT).map(drop)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Leftovers in a folder for temporary files are harmless.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Reports whether two files have the same contents.
pub fn same(one: &Path, other: &Path) -> Result<bool, String> {
    let output = process::capture(Command::new("cmp").args([one, other]), LIMIT)?;
    Ok(output.status.success())
}
