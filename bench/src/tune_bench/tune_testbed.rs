//! Sets up paths, and runs longhaul on them.

use super::tuning_paths::TuneFixturePath as LabPath;
use crate::scratch_folder::ScratchFolder;
use crate::verdict_bench::find_error_line;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

/// The time for setting up a path and connecting, in addition to the runs.
const MARGIN: Duration = Duration::from_secs(90);

/// The program, and the folder for one bench's files.
#[derive(Debug)]
pub struct TuneTestbed<'a> {
    longhaul: &'a Path,
    scratch: ScratchFolder,
    keep: Option<&'a Path>,
    /// The largest buffer that the kernels of this machine grant on request, in bytes.
    granted_bytes: u64,
}

/// A path that can be set up.
#[derive(Debug)]
pub struct TuneSite<'a> {
    ground: &'a TuneTestbed<'a>,
    key: String,
    file: PathBuf,
}

impl<'a> TuneTestbed<'a> {
    pub fn new(longhaul: &'a Path, keep: Option<&'a Path>) -> Result<Self, String> {
        let granted = [read_sysctl("rmem_max")?, read_sysctl("wmem_max")?];
        if let Some(folder) = keep {
            // Checked before the first run, not after an hour of them.
            std::fs::create_dir_all(folder)
                .map_err(|e| format!("cannot make the folder {}: {e}", folder.display()))?;
        }
        Ok(TuneTestbed {
            longhaul,
            scratch: ScratchFolder::new("tune")?,
            keep,
            granted_bytes: granted[0].min(granted[1]),
        })
    }

    pub fn granted_bytes(&self) -> u64 {
        self.granted_bytes
    }

    pub fn site(&'a self, path: &LabPath) -> Result<TuneSite<'a>, String> {
        let key = path.key();
        let file = self.scratch.write(&format!("{key}.toml"), &path.file()?)?;
        Ok(TuneSite { ground: self, key, file })
    }
}

fn read_sysctl(name: &str) -> Result<u64, String> {
    let file = format!("/proc/sys/net/core/{name}");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {file}: {e}"))?;
    text.trim().parse().map_err(|e| format!("{file} is no number: {e}"))
}

impl TuneSite<'_> {
    /// Returns the report that longhaul with these words prints at the near end; kept as `name`.
    pub fn report(&self, name: &str, words: &str, time: Duration) -> Result<Value, String> {
        let ground = self.ground;
        let mut lab = Command::new(ground.longhaul);
        lab.args(["lab", "run"]).arg(&self.file).arg("--");
        lab.arg(ground.longhaul).args(words.split(' ')).arg("--json");
        lab.env("LONGHAUL_ARCHIVE", self.archive());
        let output = program_runner::capture_output(&mut lab, time + MARGIN)?;
        let report: Value =
            serde_json::from_str(&output.stdout).map_err(|_| find_error_line(&output.stderr))?;
        if let Some(keep) = ground.keep {
            let file = keep.join(format!("{}-{name}.json", self.key));
            std::fs::write(&file, &output.stdout)
                .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        }
        Ok(report)
    }

    /// Each path has its own archive, because paths are measured in parallel.
    fn archive(&self) -> PathBuf {
        self.ground.scratch.path(&format!("{}.sqlite3", self.key))
    }
}
