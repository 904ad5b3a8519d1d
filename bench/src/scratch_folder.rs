//! Temporary files of one bench, removed when it ends.

use std::path::PathBuf;

/// A folder of this process in the folder for temporary files.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    pub fn new(bench: &str) -> Result<Self, String> {
        let name = format!("longhaul-{bench}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
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
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Leftovers in the folder for temporary files are harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
