//! The CPU cost of a run, and foreign load on the machine.
//!
//! CPU time is that of an accounting group with every process of both ends, including forked ones;
//! kernel work in their context counts. The machine's total is read as well, so that foreign load
//! is detected.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use xtask::program_runner::{self, format_command};

/// The prefix of a group's name; the pid of its creator and its content follow.
const GROUP: &str = "longhaul-bench-";

/// An accounting group of the kernel, removed with its processes when dropped.
#[derive(Debug)]
pub struct CpuGroup {
    folder: PathBuf,
    usage: CgroupVersion,
}

#[derive(Debug)]
enum CgroupVersion {
    /// cgroup v1: `cpuacct.usage`, nanoseconds.
    First,
    /// cgroup v2: `usage_usec` of `cpu.stat`.
    Second,
}

impl CpuGroup {
    pub fn new() -> Result<Self, String> {
        CpuGroup::named("both")
    }

    /// Creates one of several concurrent groups of this program.
    pub fn named(part: &str) -> Result<Self, String> {
        let name = format!("{GROUP}{}-{part}", std::process::id());
        let (base, usage) = if Path::new("/sys/fs/cgroup/cpuacct").is_dir() {
            ("/sys/fs/cgroup/cpuacct", CgroupVersion::First)
        } else {
            ("/sys/fs/cgroup", CgroupVersion::Second)
        };
        clear_abandoned(Path::new(base));
        let folder = Path::new(base).join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|e| format!("cannot make the accounting group {}: {e}", folder.display()))?;
        Ok(CpuGroup { folder, usage })
    }

    /// Starts a program in the group.
    pub fn spawn(
        &self,
        enter: &[String],
        program: &[String],
        env: &[(&str, &str)],
    ) -> Result<Child, String> {
        let join = "echo $$ > \"$0\" && exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", join]).arg(self.folder.join("cgroup.procs")).args(enter).args(program);
        command.envs(env.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|e| format!("cannot start `{}`: {e}", format_command(&command)))
    }

    /// Returns the CPU time of all processes that were ever in the group.
    pub fn cpu(&self) -> Option<Duration> {
        match self.usage {
            CgroupVersion::First => {
                let text = std::fs::read_to_string(self.folder.join("cpuacct.usage")).ok()?;
                text.trim().parse().ok().map(Duration::from_nanos)
            }
            CgroupVersion::Second => {
                let text = std::fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
                let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                line.trim().parse().ok().map(Duration::from_micros)
            }
        }
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

/// Removes the groups of killed benches; one that still has members stays.
fn clear_abandoned(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let own = name.to_str().and_then(|name| name.strip_prefix(GROUP));
        let owner = own.and_then(|own| own.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Not empty: a process still runs in it, and the kernel refuses.
            let _ = std::fs::remove_dir(entry.path());
        }
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

/// Returns the bytes per second that the slowest core copies within its L1 cache, with all cores
/// busy.
pub fn measure_core_speed() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let copies: Vec<_> = (0..cores).map(|_| std::thread::spawn(measure_copy_rate)).collect();
    copies.into_iter().filter_map(|copy| copy.join().ok()).fold(f64::INFINITY, f64::min)
}

fn measure_copy_rate() -> f64 {
    let from = vec![1_u8; 16 << 10];
    let mut to = vec![0_u8; 16 << 10];
    let started = Instant::now();
    let mut bytes = 0_usize;
    while started.elapsed() < Duration::from_millis(25) {
        for _ in 0..64 {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
        }
        bytes += 64 * from.len();
    }
    bytes as f64 / started.elapsed().as_secs_f64()
}
