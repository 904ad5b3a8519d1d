//! Reports of longhaul commands on emulated paths.

use crate::narrow_path::NarrowPath;
use crate::scratch_folder::ScratchFolder;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

/// The time for setting up a path and connecting, in addition to that of a command.
const MARGIN: Duration = Duration::from_secs(90);

/// Runs commands at the near end of paths, with `longhaul serve` at the far end.
#[derive(Debug)]
pub struct LabReporter<'a> {
    longhaul: &'a Path,
    scratch: ScratchFolder,
    /// Every report is kept in this folder.
    keep: Option<&'a Path>,
}

/// A path that can be set up.
#[derive(Debug)]
pub struct LabPath {
    name: String,
    file: PathBuf,
}

impl<'a> LabReporter<'a> {
    pub fn new(longhaul: &'a Path, keep: Option<&'a Path>) -> Result<Self, String> {
        if let Some(folder) = keep {
            // Checked before the first run, not after an hour of them.
            std::fs::create_dir_all(folder)
                .map_err(|e| format!("cannot make the folder {}: {e}", folder.display()))?;
        }
        Ok(LabReporter { longhaul, scratch: ScratchFolder::on_disk()?, keep })
    }

    /// Writes the file of a path.
    pub fn path(&self, path: &NarrowPath<'_>) -> Result<LabPath, String> {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = path.title.chars().map(word).collect();
        let file = self.scratch.write(&format!("{name}.toml"), &path.path_file())?;
        Ok(LabPath { name, file })
    }

    /// Returns the report that longhaul with these words gives in `time`; kept as `part` of the path.
    pub fn report(
        &self,
        path: &LabPath,
        part: &str,
        words: &str,
        time: Duration,
    ) -> Result<Value, String> {
        let child = program_runner::spawn_captured(&mut self.command(path, words))?;
        let output = program_runner::wait_with_output(child, time + MARGIN)?;
        let report =
            serde_json::from_str(&output.stdout).map_err(|_| find_error_line(&output.stderr))?;
        if let Some(keep) = self.keep {
            let file = keep.join(format!("{}-{part}.json", path.name));
            std::fs::write(&file, &output.stdout)
                .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        }
        Ok(report)
    }

    fn command(&self, path: &LabPath, words: &str) -> Command {
        let mut lab = Command::new(self.longhaul);
        lab.args(["lab", "run"]).arg(&path.file).arg("--");
        lab.arg(self.longhaul).args(words.split(' ')).args(["--json", "--no-save", "--quiet"]);
        lab
    }
}

fn find_error_line(stderr: &str) -> String {
    let error = stderr.lines().find(|line| line.starts_with("error"));
    error.or_else(|| stderr.lines().last()).unwrap_or("it printed nothing").to_owned()
}

/// Returns the goodput of a run's report in bit/s: that of the steady part, or the mean.
pub fn read_goodput_bps(report: &Value) -> Option<f64> {
    let analysis = &report["analysis"];
    analysis["goodput_bps"].as_f64().or_else(|| analysis["mean_goodput_bps"].as_f64())
}
