//! A path that stays up while a bench works at both of its ends, and commands at a host.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use xtask::program_runner;

const SHORT_DEADLINE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(10);

/// A path that is taken down when dropped: its near command reads an input that ends then.
#[derive(Debug)]
pub struct BenchLab {
    _lab: HeldProcess,
    /// Processes at the two hosts.
    pub near: u32,
    pub far: u32,
}

impl BenchLab {
    /// Sets up a shipped path by its name, or a path file, and waits until both of its ends exist.
    pub fn set_up(longhaul: &Path, path: &str) -> Result<Self, String> {
        Self::start(Command::new(longhaul).args(["lab", "run", path]))
    }

    /// Sets up a path with this command, which lacks only the command to run on the near host.
    pub fn start(lab_run: &mut Command) -> Result<Self, String> {
        lab_run.args(["--", "sh", "-c", "echo $$ $LONGHAUL_LAB_FAR_PID; exec cat"]);
        lab_run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut lab = HeldProcess(program_runner::spawn(lab_run)?);
        let mut ends = String::new();
        if let Some(out) = lab.0.stdout.take() {
            BufReader::new(out).read_line(&mut ends).map_err(|e| e.to_string())?;
        }
        let inner = |word: &str| find_machine_pid(lab.pid(), word);
        let mut pids = ends.split_whitespace().map(inner);
        let ends = pids.next().flatten().zip(pids.next().flatten());
        let (near, far) = ends.ok_or("the path did not come up; is this root?")?;
        Ok(BenchLab { _lab: lab, near, far })
    }

    /// Ends the server that the lab has started at the far host, which the lab tolerates; the host
    /// stays because another process holds it.
    pub fn replace_server(&mut self) -> Result<HeldProcess, String> {
        let holder = HeldProcess::start(&mut command_at_host(self.far, &["cat"]))?;
        let server = self.far;
        let net = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        wait_until(SHORT_DEADLINE, || {
            net(holder.pid()).is_some() && net(holder.pid()) == net(server)
        })
        .ok_or("the far host cannot be entered with nsenter; is this root?")?;
        let mut kill = Command::new("kill");
        program_runner::capture_stdout(kill.arg(server.to_string()), SHORT_DEADLINE)?;
        wait_until(SHORT_DEADLINE, || !is_running(server))
            .ok_or_else(|| format!("the lab's own server, process {server}, does not end"))?;
        self.far = holder.pid();
        Ok(holder)
    }
}

/// A process that ends when its input does. A kill would leave a path behind.
#[derive(Debug)]
pub struct HeldProcess(Child);

impl HeldProcess {
    fn start(command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(HeldProcess(program_runner::spawn(command)?))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for HeldProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if program_runner::wait_with_limit(&mut self.0, SHORT_DEADLINE).is_err() {
            eprintln!("a lab did not end by itself");
        }
    }
}

/// Returns the child of `lab` that has the number `inner` in its own PID namespace.
fn find_machine_pid(lab: u32, inner: &str) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let last = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().last()
        };
        last("PPid:") == Some(&lab.to_string()) && last("NSpid:") == Some(inner)
    })
}

/// Returns a command in the namespaces of the host of `pid`; it ends with this program. It is not in
/// the PID namespace of the lab, so it needs another `/proc`.
pub fn command_at_host<W: AsRef<OsStr>>(pid: u32, words: &[W]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "nsenter", "--net", "--mount"]);
    command.args(["--target", &pid.to_string(), "unshare", "--mount-proc", "--"]);
    command.args(words);
    command
}

/// Waits until a TCP port of the host of `pid` is open.
pub fn wait_until_listening(pid: u32) -> Result<(), String> {
    let listens = |table: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        // Fields: number, local address, remote address, state; 0A is LISTEN.
        text.lines().any(|line| line.split_whitespace().nth(3) == Some("0A"))
    };
    wait_until(SHORT_DEADLINE, || listens("tcp") || listens("tcp6"))
        .ok_or_else(|| "no server listens after 15 s".to_owned())
}

/// Waits until a condition holds; `None` if it does not in time.
fn wait_until(limit: Duration, holds: impl Fn() -> bool) -> Option<()> {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
    Some(())
}

/// Reports whether the process runs: an ended child of the lab stays in the table until the lab
/// ends.
fn is_running(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with('Z')
}
