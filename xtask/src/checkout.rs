//! The checkout: its root and its text files.

use crate::program_runner;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The built page, which is committed and embedded by the next build of the program.
pub const BUILT_PAGE: &str = "web/dist/page";

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
    /// Reports whether the file has this extension.
    pub fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|it| it == extension)
    }

    /// Reports whether this is test code: a test file, or a file in a test folder.
    pub fn is_test(&self) -> bool {
        let folders = ["tests", "benches", "examples", "fuzz_targets"];
        self.path.split('/').any(|part| folders.contains(&part)) || self.path.ends_with("tests.rs")
    }
}

/// Returns every text file of the project at `root` that git does not ignore, without the built page.
pub fn list_files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = program_runner::capture_stdout(&mut git, Duration::from_secs(60))?;
    let paths = listed.split_terminator('\0').filter(|path| !path.starts_with(BUILT_PAGE));
    // A file that is no text, or that was removed, is left out.
    let read = |path: &str| {
        let text = std::fs::read_to_string(root.join(path)).ok()?;
        Some(SourceFile { path: path.to_owned(), text })
    };
    let mut files: Vec<SourceFile> = paths.filter_map(read).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
