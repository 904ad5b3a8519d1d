//! An emulated path whose far end is free for any server.
//!
//! `longhaul lab run` sets it up and starts a `longhaul serve` there, which is ended at once,
//! because its port is needed. Everything ends when the value is dropped or this program ends: the
//! lab waits for the end of its near command's input.

use super::PathDelay;
use super::device_counters::HostObserver;
use crate::process_tree;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use xtask::program_runner;

pub const PORT: u16 = 5201;
pub const FAR_V4: &str = "10.77.0.2";
pub const FAR_V6: &str = "fd77::2";
pub const RATE_BPS: f64 = 50e6;
/// Long, because concurrent setups of labs wait for one another.
const SETUP_DEADLINE: Duration = Duration::from_secs(60);
const SHORT_DEADLINE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(10);

/// An emulated path, with observers of the devices at both ends.
#[derive(Debug)]
pub struct InteropPath {
    near: u32,
    delay: PathDelay,
    pub near_watch: HostObserver,
    pub far_watch: HostObserver,
    /// Keeps the far host alive, whichever server runs there.
    holder: KeptProcess,
    /// Dropped last, because it takes the path down.
    _lab: KeptProcess,
}

impl InteropPath {
    /// Sets up a path of this delay; `name` distinguishes the paths of one program.
    pub fn set_up(longhaul: &Path, delay: PathDelay, name: &str) -> Result<InteropPath, String> {
        let file = TemporaryPathFile::write(delay, name)?;
        let mut words = Command::new(longhaul);
        words.args(["lab", "run"]).arg(&file.0).args(["--", "cat"]);
        let lab = KeptProcess::start(&mut words)?;
        let (near, far) = lab.host_pids()?;
        let mut words = Command::new("nsenter");
        let target = far.to_string();
        words.args(["--net", "--mount", "--target", &target, "--", "cat"]);
        let holder = KeptProcess::start(&mut words)?;
        holder.wait_until_at(far)?;
        end_server(far)?;
        Ok(InteropPath {
            near,
            delay,
            near_watch: HostObserver::start(near)?,
            far_watch: HostObserver::start(holder.0.id())?,
            holder,
            _lab: lab,
        })
    }

    /// Returns a command at the near host.
    pub fn near(&self, words: &[String]) -> Command {
        command_inside(self.near, words)
    }

    /// Returns a command at the far host.
    pub fn far(&self, words: &[String]) -> Command {
        command_inside(self.holder.0.id(), words)
    }

    /// Returns the default capacity of a connection's send buffer.
    pub fn buffer_bytes(&self) -> f64 {
        compute_window_bytes(self.delay) as f64
    }

    /// Waits until the port at the far host is open.
    pub fn wait_for_listener(&self) -> Result<(), String> {
        let table = |name| format!("/proc/{}/net/{name}", self.holder.0.id());
        let listens = |name| {
            let text = std::fs::read_to_string(table(name)).unwrap_or_default();
            let end = format!(":{PORT:04X}");
            // Fields: number, local address, remote address, state; 0A is LISTEN.
            text.lines().any(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields.get(1).is_some_and(|local| local.ends_with(&end))
                    && fields.get(3) == Some(&"0A")
            })
        };
        let deadline = Instant::now() + SHORT_DEADLINE;
        while !listens("tcp") && !listens("tcp6") {
            if Instant::now() > deadline {
                return Err(format!("nobody listens on port {PORT} after 15 s"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// The path file, in the folder for temporary files.
struct TemporaryPathFile(PathBuf);

impl TemporaryPathFile {
    fn write(delay: PathDelay, name: &str) -> Result<TemporaryPathFile, String> {
        let file = std::env::temp_dir().join(format!("{name}-{}.toml", std::process::id()));
        std::fs::write(&file, format_path_file(delay))
            .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        Ok(TemporaryPathFile(file))
    }
}

impl Drop for TemporaryPathFile {
    fn drop(&mut self) {
        // A leftover in the folder for temporary files is harmless.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Describes a path of 50 Mbit/s with a queue that never overflows and windows of twice the BDP:
/// enough to fill it, and little in flight when a test ends.
fn format_path_file(delay: PathDelay) -> String {
    let window = compute_window_bytes(delay);
    let host = format!(
        "\"net.ipv4.tcp_rmem\" = \"4096 131072 {}\"\n\"net.ipv4.tcp_wmem\" = \"4096 65536 {window}\"\n\
         \"net.ipv4.tcp_congestion_control\" = \"cubic\"\n",
        2 * window,
    );
    format!(
        "name = \"interop, {} ms\"\nmtu = 1500\n[near.sysctl]\n{host}[far.sysctl]\n{host}\
         [[hops]]\nname = \"middle\"\ndelay = \"{} us\"\nrate = \"50 Mbit/s\"\nqueue = \"64 MB\"\n\
         [[hops]]\nname = \"last\"\nrate = \"50 Mbit/s\"\nqueue = \"64 MB\"\n",
        delay.0,
        delay.0 * 500,
    )
}

fn compute_window_bytes(delay: PathDelay) -> u64 {
    let held = delay.round_trip().as_secs_f64() * RATE_BPS / 8.0;
    (2.0 * held).max(256e3) as u64
}

/// A process that ends when its input does.
#[derive(Debug)]
struct KeptProcess(Child);

impl KeptProcess {
    fn start(command: &mut Command) -> Result<KeptProcess, String> {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        let child = child.map_err(|e| {
            format!(
                "cannot start `{}`: {e}",
                program_runner::format_command(command)
            )
        })?;
        Ok(KeptProcess(child))
    }

    /// Returns the pids of the command at host near and of the server at host far.
    fn host_pids(&self) -> Result<(u32, u32), String> {
        let wait = |asked: fn(&process_tree::DescendantProcess) -> bool| {
            process_tree::wait_for_descendant(self.0.id(), SETUP_DEADLINE, asked).map(|kin| kin.pid)
        };
        let is_near = |kin: &process_tree::DescendantProcess| {
            kin.words.first().is_some_and(|word| word.ends_with("cat"))
        };
        let ends = wait(is_near).zip(wait(process_tree::is_far_end));
        ends.ok_or_else(|| "the path did not come up; is this root?".to_owned())
    }

    fn wait_until_at(&self, host: u32) -> Result<(), String> {
        let net = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let deadline = Instant::now() + SHORT_DEADLINE;
        while net(self.0.id()).is_none() || net(self.0.id()) != net(host) {
            if Instant::now() > deadline {
                return Err("the far host cannot be entered with nsenter; is this root?".to_owned());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for KeptProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if program_runner::wait_with_limit(&mut self.0, SHORT_DEADLINE).is_err() {
            eprintln!("a lab did not end by itself");
        }
    }
}

fn command_inside(pid: u32, words: &[String]) -> Command {
    let target = pid.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "nsenter", "--net", "--mount"]);
    command.args(["--target", &target, "--"]).args(words);
    command
}

/// Ends the server that the lab has started; the lab tolerates that.
fn end_server(pid: u32) -> Result<(), String> {
    let mut kill = Command::new("kill");
    program_runner::capture_stdout(kill.arg(pid.to_string()), SHORT_DEADLINE)?;
    let deadline = Instant::now() + SHORT_DEADLINE;
    while is_running(pid) {
        if Instant::now() > deadline {
            return Err(format!("the lab's own server, process {pid}, does not end"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Reports whether the process runs: an ended child of the lab stays in the table until the lab
/// ends.
fn is_running(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with('Z')
}
