//! Test networks for copies: a private loopback or a path of the lab, a far end that serves a
//! folder, and a near end that copies.

use crate::TOKEN;
use crate::bench_lab::{self, BenchLab};
use crate::testbed::TestNamespace;
use serde_json::Value;
use std::fmt::Debug;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use xtask::program_runner::{self, ChildGuard};

/// Not the port of the far end that the lab starts.
const PORT: &str = "5301";
/// The deadline of the longest copy.
pub const LIMIT: Duration = Duration::from_secs(900);

/// One or two hosts between which files are copied.
#[derive(Debug)]
pub struct CopyTestbed {
    pub longhaul: PathBuf,
    /// Processes in the namespaces of both ends.
    pub near: u32,
    far: u32,
    pub address: &'static str,
    /// The namespace or the lab, which disappears with this value.
    _network: Box<dyn Debug>,
}

impl CopyTestbed {
    pub fn loopback(longhaul: &Path) -> Result<CopyTestbed, String> {
        let namespace = TestNamespace::new()?;
        Ok(CopyTestbed {
            longhaul: longhaul.to_owned(),
            near: namespace.pid(),
            far: namespace.pid(),
            address: "127.0.0.1",
            _network: Box::new(namespace),
        })
    }

    /// Sets up a shipped path by its name, or a path file.
    pub fn path(longhaul: &Path, path: &str) -> Result<CopyTestbed, String> {
        let lab = BenchLab::set_up(longhaul, path)?;
        Ok(CopyTestbed {
            longhaul: longhaul.to_owned(),
            near: lab.near,
            far: lab.far,
            address: "far",
            _network: Box::new(lab),
        })
    }

    /// Starts a far end that serves `folder`.
    pub fn serve(&self, folder: &Path) -> Result<ChildGuard, String> {
        let mut command = bench_lab::command_at_host(self.far, &[&self.longhaul]);
        command
            .args(["serve", "-p", PORT, "--json", "--files"])
            .arg(format!("{}:rw", folder.display()))
            .env("LONGHAUL_TOKEN", TOKEN);
        let mut child = program_runner::spawn_captured(&mut command)?;
        let mut log = BufReader::new(child.stderr.take().ok_or("it has no log")?);
        let far = ChildGuard(child);
        let mut first = String::new();
        log.read_line(&mut first).map_err(|e| format!("cannot read the far end's log: {e}"))?;
        if !first.contains("\"serving\"") {
            return Err(format!("the far end does not serve: {}", first.trim()));
        }
        // An unread log would block it eventually.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Ok(far)
    }

    /// Returns a command that copies to or from the far end.
    pub fn copy(&self, words: &[&str]) -> Command {
        self.command(&[&["copy"], words].concat())
    }

    /// Returns a command of longhaul at the near end.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = bench_lab::command_at_host(self.near, &[&self.longhaul]);
        command.args(words).args(["-p", PORT, "--quiet"]).env("LONGHAUL_TOKEN", TOKEN);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs a command of longhaul to its end, and returns its report.
pub fn run_for_report(mut command: Command) -> Result<Value, String> {
    let text = program_runner::capture_stdout(command.args(["--no-save", "--json"]), LIMIT)?;
    serde_json::from_str(&text).map_err(|e| format!("no report: {e}"))
}
