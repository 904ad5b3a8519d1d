//! Folders for the files of this bench: in memory, or on the disk of the temporary files.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use xtask::TaskResult;
use xtask::program_runner;

/// The number of stores created so far.
static STORES: AtomicU32 = AtomicU32::new(0);
const LIMIT: Duration = Duration::from_secs(600);

/// A folder that is removed at the end.
pub struct ScratchStore {
    pub name: &'static str,
    folder: PathBuf,
}

impl ScratchStore {
    pub fn memory() -> Result<ScratchStore, String> {
        ScratchStore::new("tmpfs", Path::new("/dev/shm"))
    }

    pub fn disk() -> Result<ScratchStore, String> {
        ScratchStore::new("disk", &std::env::temp_dir())
    }

    fn new(name: &'static str, base: &Path) -> Result<ScratchStore, String> {
        let mut find = Command::new("findmnt");
        find.args(["-n", "-o", "FSTYPE", "-T"]).arg(base);
        let kinds = program_runner::capture_stdout(&mut find, LIMIT)?;
        // Of several mounts on one folder the last is visible.
        let kind = kinds.lines().last().unwrap_or_default().trim();
        if (kind == "tmpfs") != (name == "tmpfs") {
            return Err(format!("{} is {kind}, not a {name}", base.display()));
        }
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let folder = base.join(format!("longhaul-copy-{}-{number}", std::process::id()));
        let store = ScratchStore { name, folder };
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
    pub fn forget(&self, path: &Path) -> TaskResult {
        if self.name == "tmpfs" {
            return Ok(());
        }
        let mut dd = Command::new("dd");
        dd.arg(format!("if={}", path.display())).args(["iflag=nocache", "count=0", "status=none"]);
        program_runner::capture_stdout(&mut dd, LIMIT).map(drop)
    }
}

impl Drop for ScratchStore {
    fn drop(&mut self) {
        // Leftovers in a folder for temporary files are harmless.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Reports whether two files have the same contents.
pub fn have_same_contents(one: &Path, other: &Path) -> Result<bool, String> {
    let output = program_runner::capture_output(Command::new("cmp").args([one, other]), LIMIT)?;
    Ok(output.status.success())
}
