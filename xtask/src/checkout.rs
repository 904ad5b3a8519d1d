//! The checkout: its root and its text files.

use std::path::{Path, PathBuf};

/// Returns the folder of the workspace manifest.
pub fn find_root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// A text file of the checkout.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Relative to the root, with forward slashes.
    pub path: String,
    pub text: String,
}

impl SourceFile {
    pub fn is_rust(&self) -> bool {
        self.extension() == Some("rs")
    }

    pub fn is_markdown(&self) -> bool {
        self.extension() == Some("md")
    }

    /// Reports whether this is test code: a test file, or a file in a test folder.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("tests.rs")
    }

    fn extension(&self) -> Option<&str> {
        Path::new(&self.path).extension()?.to_str()
    }
}

/// Returns every text file of the project below `find_root`, without build output, the version store and
/// leftovers of fuzzers.
pub fn list_files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .map_err(|e| format!("cannot list {}: {e}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|e| format!("cannot list {}: {e}", folder.display()))?.path();
            let relative = relative_path(root, &path);
            if path.is_dir() {
                if !is_foreign_folder(&relative) {
                    folders.push(path);
                }
            } else if relative == ".git" {
                // The pointer of a worktree.
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                found.push(SourceFile { path: relative, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn relative_path(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

fn is_foreign_folder(folder: &str) -> bool {
    matches!(folder, ".git" | "web/dist/page" | "fuzz/corpus" | "fuzz/artifacts" | "fuzz/coverage")
        || folder.split('/').any(|part| part == "target" || part == "node_modules")
}
