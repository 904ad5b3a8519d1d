//! The CPU cost of a run, and foreign load on the machine.
//!
//! CPU time is that of an accounting group with every process of both ends, including forked ones;
//! kernel work in their context counts. The machine's total is read as well, so that foreign load
//! is detected.

use crate::TOKEN;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use xtask::program_runner;

/// An accounting group of the kernel, removed with its processes when dropped.
#[derive(Debug)]
pub struct CpuGroup {
    folder: PathBuf,
}

impl CpuGroup {
    /// Creates the group of this program.
    pub fn new() -> Result<Self, String> {
        let version_1 = Path::new("/sys/fs/cgroup/cpuacct");
        let base = if version_1.is_dir() { version_1 } else { Path::new("/sys/fs/cgroup") };
        let folder = base.join(format!("longhaul-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|e| format!("cannot make the accounting group {}: {e}", folder.display()))?;
        Ok(CpuGroup { folder })
    }

    /// Starts a program in the group; `enter` are the words that run it in its namespace.
    pub fn spawn(&self, enter: &[String], program: &[String]) -> Result<Child, String> {
        let join = "echo $$ > \"$0\" && exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", join]).arg(self.folder.join("cgroup.procs")).args(enter).args(program);
        program_runner::spawn_silent(command.env("LONGHAUL_TOKEN", TOKEN))
    }

    /// Returns the CPU time of all processes that were ever in the group: `cpuacct.usage` of cgroup
    /// v1 or `cpu.stat` of v2.
    pub fn cpu(&self) -> Option<Duration> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        if let Some(nanoseconds) = read("cpuacct.usage") {
            return nanoseconds.trim().parse().ok().map(Duration::from_nanos);
        }
        let text = read("cpu.stat")?;
        let microseconds = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        microseconds.trim().parse().ok().map(Duration::from_micros)
    }

    /// Kills all processes in the group.
    pub fn clear(&self) {
        let members = std::fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        let pids: Vec<&str> = members.split_whitespace().collect();
        if !pids.is_empty() {
            // It fails if the process is already gone, which is fine.
            let _ = program_runner::capture_output(
                Command::new("kill").arg("-9").args(pids),
                Duration::from_secs(5),
            );
        }
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        self.clear();
        // The kernel removes the last members a moment after they end.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("the accounting group {} could not be removed", self.folder.display());
    }
}

/// Returns the CPU time of the whole machine, summed over all cores.
pub fn read_machine_cpu() -> Option<Duration> {
    /// The kernel reports in hundredths of a second to user space, whatever its own tick is.
    const TICK: Duration = Duration::from_millis(10);
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u32> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse::<u64>().ok())
        .map(|ticks| u32::try_from(ticks).unwrap_or(u32::MAX))
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|&at| fields.get(at));
    Some(busy.map(|&ticks| TICK * ticks).sum())
}
