//! Slows down one thing: a pipe, a core, a share of a core, a disk.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use xtask::TaskResult;
use xtask::program_runner;

/// The block size for feeding and draining pipes, in bytes.
const BLOCK_BYTES: usize = 256 << 10;
const CPU: &str = "/sys/fs/cgroup/cpu";
const BLKIO: &str = "/sys/fs/cgroup/blkio";
/// The period of the kernel's CPU quota.
const PERIOD_US: f64 = 100_000.0;

/// Feeds a pipe at a limited rate.
pub struct PipeFeeder(JoinHandle<std::io::Result<()>>);

impl PipeFeeder {
    pub fn start(into: Option<ChildStdin>, bytes_per_second: u64, bytes: u64) -> PipeFeeder {
        PipeFeeder(std::thread::spawn(move || {
            let mut into = into.ok_or(std::io::ErrorKind::BrokenPipe)?;
            let pace = BytePacer::new(bytes_per_second);
            let piece = vec![0x5a; BLOCK_BYTES];
            for done in (0..bytes).step_by(BLOCK_BYTES) {
                into.write_all(&piece)?;
                pace.wait_for(done + BLOCK_BYTES as u64);
            }
            Ok(())
        }))
    }

    pub fn end(self) -> TaskResult {
        join_thread(self.0)
    }
}

/// Drains a pipe at a limited rate.
pub struct PipeDrain(JoinHandle<std::io::Result<u64>>);

impl PipeDrain {
    pub fn start(from: Option<ChildStdout>, bytes_per_second: u64) -> PipeDrain {
        PipeDrain(std::thread::spawn(move || {
            let mut from = from.ok_or(std::io::ErrorKind::BrokenPipe)?;
            let pace = BytePacer::new(bytes_per_second);
            let mut piece = vec![0; BLOCK_BYTES];
            let mut bytes = 0;
            loop {
                match from.read(&mut piece)? {
                    0 => return Ok(bytes),
                    count => bytes += count as u64,
                }
                pace.wait_for(bytes);
            }
        }))
    }

    /// Returns the number of bytes drained.
    pub fn end(self) -> Result<u64, String> {
        join_thread(self.0)
    }
}

fn join_thread<T>(thread: JoinHandle<std::io::Result<T>>) -> Result<T, String> {
    let done = thread.join().map_err(|_| "a pipe's thread failed")?;
    done.map_err(|e| format!("a pipe: {e}"))
}

/// Limits the bytes that have passed at any time.
struct BytePacer {
    begun: Instant,
    bytes_per_second: f64,
}

impl BytePacer {
    fn new(bytes_per_second: u64) -> BytePacer {
        BytePacer { begun: Instant::now(), bytes_per_second: bytes_per_second as f64 }
    }

    fn wait_for(&self, bytes: u64) {
        let due = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
    }
}

/// Programs that keep one core busy.
pub struct SpinningPrograms(Vec<Child>);

impl SpinningPrograms {
    pub fn start(core: usize, count: usize) -> Result<SpinningPrograms, String> {
        let mut spinners = SpinningPrograms(Vec::new());
        for _ in 0..count {
            let mut spin = Command::new("setpriv");
            spin.args(["--pdeathsig", "KILL", "taskset", "-c", &core.to_string()])
                .args(["sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null());
            spinners.0.push(program_runner::spawn(&mut spin)?);
        }
        Ok(spinners)
    }
}

impl Drop for SpinningPrograms {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(program_runner::kill_child);
    }
}

/// A cgroup v1, removed at the end.
pub struct CgroupV1(PathBuf);

impl CgroupV1 {
    fn new(base: &str, settings: &[(&str, String)]) -> Result<CgroupV1, String> {
        let group = CgroupV1(Path::new(base).join(format!("longhaul-copy-{}", std::process::id())));
        let failed = |what: &Path, e: std::io::Error| {
            let what = what.display();
            format!("cannot limit by {what}: {e}; this wants control groups of version 1")
        };
        fs::create_dir_all(&group.0).map_err(|e| failed(&group.0, e))?;
        for (name, value) in settings {
            let file = group.0.join(name);
            fs::write(&file, value).map_err(|e| failed(&file, e))?;
        }
        Ok(group)
    }

    /// Creates a group with a share of one core.
    pub fn with_core_share(share: f64) -> Result<CgroupV1, String> {
        let quota = (PERIOD_US * share).round().to_string();
        CgroupV1::new(CPU, &[("cpu.cfs_quota_us", quota)])
    }

    /// Creates a group that is limited to a rate in each direction on the disk of a folder.
    pub fn with_slow_disk(folder: &Path, bytes_per_second: u64) -> Result<CgroupV1, String> {
        let about = fs::metadata(folder)
            .map_err(|e| format!("cannot look at {}: {e}", folder.display()))?;
        // As in glibc's `gnu_dev_major` and `gnu_dev_minor`.
        let device = about.dev();
        let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
        let minor = (device & 0xff) | ((device >> 12) & !0xff);
        let limit = format!("{major}:{minor} {bytes_per_second}");
        let names = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];
        CgroupV1::new(BLKIO, &names.map(|name| (name, limit.clone())))
    }

    /// Returns the command prefix that runs a command in the group.
    pub fn words(&self) -> Vec<String> {
        let members = self.0.join("cgroup.procs").display().to_string();
        let join = "echo $$ > \"$0\" && exec \"$@\"";
        ["sh", "-c", join, &members].map(str::to_owned).to_vec()
    }
}

impl Drop for CgroupV1 {
    fn drop(&mut self) {
        // The kernel removes the last members a moment after they end.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("the group {} could not be removed", self.0.display());
    }
}
