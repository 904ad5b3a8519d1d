//! Test networks for copies: a private loopback or a path of the lab, a far end that serves a
//! folder, and a near end that copies.

use super::scratch_store::ScratchStore;
use crate::TOKEN;
use crate::bench_lab::{self, BenchLab};
use crate::cpu_meter::read_machine_cpu;
use crate::testbed::{AllowedControl, TestNamespace};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use xtask::program_runner;

/// Not the port of the far end that the lab starts.
const PORT: &str = "5301";
/// The deadline of the longest copy of this bench.
pub const LIMIT: Duration = Duration::from_secs(900);

/// One or two hosts between which files are copied.
pub struct CopyTestbed {
    pub longhaul: PathBuf,
    /// The pids of processes in the namespaces of both ends.
    near: u32,
    far: u32,
    pub address: &'static str,
    /// One of these two keeps the network alive.
    _loopback: Option<(TestNamespace, AllowedControl)>,
    _lab: Option<BenchLab>,
}

impl CopyTestbed {
    pub fn loopback(longhaul: &Path) -> Result<CopyTestbed, String> {
        let allowed = AllowedControl::new()?;
        let namespace = TestNamespace::new()?;
        Ok(CopyTestbed {
            longhaul: longhaul.to_owned(),
            near: namespace.pid(),
            far: namespace.pid(),
            address: "127.0.0.1",
            _loopback: Some((namespace, allowed)),
            _lab: None,
        })
    }

    /// Sets up a shipped path by its name, or a path file.
    pub fn path(longhaul: &Path, path: &str) -> Result<CopyTestbed, String> {
        let lab = BenchLab::set_up(longhaul, &[path])?;
        Ok(CopyTestbed {
            longhaul: longhaul.to_owned(),
            near: lab.near,
            far: lab.far,
            address: "far",
            _loopback: None,
            _lab: Some(lab),
        })
    }

    /// Sets up a path described by `text`, whose file is in `scratch_store`.
    pub fn from_text(
        longhaul: &Path,
        store: &ScratchStore,
        text: &str,
    ) -> Result<CopyTestbed, String> {
        let file = store.path("path.toml");
        std::fs::write(&file, text).map_err(|e| format!("cannot write a path: {e}"))?;
        CopyTestbed::path(longhaul, &file.display().to_string())
    }

    /// Returns a command at the near end.
    pub fn near(&self, words: &[&str]) -> Command {
        command_with_token(self.near, words)
    }

    /// Returns a command at the far end.
    pub fn far(&self, words: &[&str]) -> Command {
        command_with_token(self.far, words)
    }

    /// Returns the bytes that have left the near end's interfaces, headers included.
    pub fn sent_bytes(&self) -> Result<u64, String> {
        let file = format!("/proc/{}/net/dev", self.near);
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {file}: {e}"))?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let outer = lines.filter(|(name, _)| name.trim() != "lo");
        let sent = outer.map(|(_, numbers)| numbers.split_whitespace().nth(8)?.parse::<u64>().ok());
        sent.sum::<Option<u64>>().ok_or_else(|| format!("{file} has another form than expected"))
    }

    /// Starts a far end that serves `folder`, with `before` as command prefix.
    pub fn serve(&self, folder: &Path, before: &[&str]) -> Result<CopyServer, String> {
        let mut command = self.far(before);
        command
            .arg(&self.longhaul)
            .args(["serve", "-p", PORT, "--json", "--files"])
            .arg(format!("{}:rw", folder.display()));
        let mut child = program_runner::spawn_captured(&mut command)?;
        let mut log = BufReader::new(child.stderr.take().ok_or("it has no log")?);
        let far = CopyServer { child };
        let mut first = String::new();
        log.read_line(&mut first).map_err(|e| format!("cannot read the far end's log: {e}"))?;
        if !first.contains("\"serving\"") {
            return Err(format!("the far end does not serve: {}", first.trim()));
        }
        // An unread log would block it eventually.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Ok(far)
    }

    /// Returns a command that copies to or from the far end, with `before` as prefix.
    pub fn copy(&self, before: &[&str], words: &[&str]) -> Command {
        let mut command = self.near(before);
        command.arg(&self.longhaul).arg("copy").args(words);
        command.args(["-p", PORT, "--quiet", "--no-save", "--json"]);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns a command that copies to standard output and archives its report.
    pub fn archived_copy(&self, archive: &str, words: &[&str]) -> Command {
        let mut command = self.near(&[]);
        command.arg(&self.longhaul).arg("copy").args(words);
        command.args(["-p", PORT, "--quiet", "--archive", archive]);
        command
    }

    /// Returns the last report of an archive.
    pub fn last_report(&self, archive: &str) -> Result<Value, String> {
        let mut show = Command::new(&self.longhaul);
        show.args(["report", "show", "last", "--json", "--archive", archive]);
        let text = program_runner::capture_stdout(&mut show, LIMIT)?;
        serde_json::from_str(&text).map_err(|e| format!("no report: {e}"))
    }

    /// Runs a copy to its end.
    pub fn run_copy(&self, before: &[&str], words: &[&str]) -> Result<CopyRunResult, String> {
        let (begun, cpu) = (Instant::now(), read_machine_cpu());
        let text = program_runner::capture_stdout(&mut self.copy(before, words), LIMIT)?;
        let cpu = read_machine_cpu().zip(cpu).map(|(now, then)| now.saturating_sub(then));
        let report = serde_json::from_str(&text).map_err(|e| format!("no report: {e}"))?;
        Ok(CopyRunResult { report, elapsed: begun.elapsed(), cpu })
    }
}

/// The report of a copy, and its cost.
pub struct CopyRunResult {
    pub report: Value,
    pub elapsed: Duration,
    /// The CPU time of the whole machine.
    pub cpu: Option<Duration>,
}

impl CopyRunResult {
    /// Returns a rate of the analysis, in bytes per second.
    pub fn rate(&self, key: &str) -> Option<f64> {
        self.report["analysis"][key].as_f64().map(|bps| bps / 8.0)
    }

    /// Returns a count of the observation.
    pub fn count(&self, key: &str) -> u64 {
        self.report["observation"][key].as_u64().unwrap_or(0)
    }

    pub fn cpu_seconds(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64())
    }
}

/// A far end that is killed when dropped.
pub struct CopyServer {
    child: Child,
}

impl Drop for CopyServer {
    fn drop(&mut self) {
        program_runner::kill_child(&mut self.child);
    }
}

fn command_with_token(pid: u32, words: &[&str]) -> Command {
    let mut command = bench_lab::command_at_host(pid, words);
    command.env("LONGHAUL_TOKEN", TOKEN);
    command
}
