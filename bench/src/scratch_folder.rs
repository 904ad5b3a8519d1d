//! Temporary files of one bench, on the disk or in memory, removed when it ends.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use xtask::{TaskResult, program_runner};

/// The number of folders created so far.
static FOLDERS: AtomicU32 = AtomicU32::new(0);
const LIMIT: Duration = Duration::from_secs(600);

/// A folder of this process.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Creates a folder in the folder for temporary files.
    pub fn on_disk() -> Result<Self, String> {
        ScratchFolder::new(&std::env::temp_dir())
    }

    pub fn in_memory() -> Result<Self, String> {
        ScratchFolder::new(Path::new("/dev/shm"))
    }

    fn new(base: &Path) -> Result<Self, String> {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = base.join(format!("longhaul-bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        Ok(ScratchFolder(folder))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let file = self.path(name);
        std::fs::write(&file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        Ok(file)
    }

    /// Creates an empty folder, in the place of an earlier one.
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
    pub fn fill_file(&self, name: &str, bytes: u64) -> Result<PathBuf, String> {
        let path = self.path(name);
        let failed = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        let mut file = File::create(&path).map_err(failed)?;
        let random = File::open("/dev/urandom").map_err(failed)?;
        std::io::copy(&mut random.take(bytes), &mut file).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        drop_from_cache(&path)?;
        Ok(path)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Leftovers in a folder for temporary files are harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Drops a file that is on the disk from the page cache; one in memory stays.
pub fn drop_from_cache(path: &Path) -> TaskResult {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", path.display())).args(["iflag=nocache", "count=0", "status=none"]);
    program_runner::capture_stdout(&mut dd, LIMIT).map(drop)
}
