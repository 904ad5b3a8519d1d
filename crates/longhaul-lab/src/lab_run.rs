//! `lab run`: sets up a path, starts `longhaul serve` at the far host, runs one command at the near
//! host, and always undoes everything.
//!
//! # Listening port
//!
//! Finds out whether a TCP port is open in the network namespace of a process.
//!
//! Source: `/proc/PID/net/tcp` and `tcp6`; state 0A is LISTEN.
//!
//! # Published port
//!
//! Publishes a TCP port of host near outside the lab, for example the web page of an agent.
//!
//! The listener is in the namespace in which the lab was started; a thread in that of host near
//! makes the connections. This traffic does not use the emulated path. The threads end with the
//! process.

use crate::emulation_engine::LabHost;
use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::lab_runtime::host_namespace::HostNamespace;
use crate::lab_runtime::{
    self, LabBackend, LabReading, RunningLab, find_timing_caveat, write_whole_file,
};
use crate::path_spec::PathSpec;
use crate::sysctl_guard::{self, SysctlGuard};
use crate::{lab_privileges, truth_file};
use longhaul_sys::file_user::is_machine_root;
use longhaul_sys::netns::{self, NamespaceKind};
use longhaul_sys::poll;
use longhaul_sys::process_control::{self, PidNamespace, SpawnOptions};
use longhaul_sys::signal::{Signal, SignalDescriptor, send_signal};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The port that `longhaul serve` at host far must open before the near command starts.
/// The environment variable with the name of the path, for commands on the near host.
pub const LAB_VARIABLE: &str = "LONGHAUL_LAB";
const FAR_PORT: u16 = 5201;
const LISTEN_DEADLINE: Duration = Duration::from_secs(30);
const LISTEN_PAUSE: Duration = Duration::from_millis(5);
const TRUTH_EVERY: Duration = Duration::from_secs(1);
/// The time that a command may take to end after it was requested to.
const END_DEADLINE: Duration = Duration::from_secs(15);
const FAR_END_DEADLINE: Duration = Duration::from_secs(2);
/// The number of bytes of a failed far command's output that are shown.
const MAX_FAR_OUTPUT_BYTES: u64 = 4096;

/// A command to run, and the path to run it on.
#[derive(Debug, Clone)]
pub struct LabRunRequest {
    pub spec: PathSpec,
    /// Program and arguments, run at host near.
    pub command: Vec<OsString>,
    /// TCP ports of host near that are also reachable on this host's loopback.
    pub publish: Vec<u16>,
    /// The file for the ground truth, written every second and at the end.
    pub truth: Option<PathBuf>,
    /// `None` uses the best available backend.
    pub backend: Option<LabBackend>,
}

/// Runs a command and returns its exit code (128 + n if signal n ended it). The process must have
/// only one thread and should end soon after, because it may be in its own user namespace by then.
///
/// # Errors
/// The path could not be set up, or a command could not be started.
pub fn run(request: &LabRunRequest) -> Result<i32, LabError> {
    let signals =
        SignalDescriptor::block_and_open().with_context("cannot take over signal handling")?;
    let ports = request.publish.iter().map(|port| bind_port(*port));
    let published: Vec<_> = ports.collect::<Result<_, LabError>>()?;
    // A user namespace and the guards need a process with one thread; the engine comes after them.
    let mut caveats = Vec::new();
    // Dropped after the path and the commands.
    let _machine = set_machine_sysctls(&request.spec, &mut caveats)?;
    let congestion = allow_congestion_controls(&request.spec, &mut caveats);
    lab_privileges::acquire_privileges()?;
    let processes = create_pid_namespace(&mut caveats);
    let mut lab = RunningLab::set_up(&request.spec, request.backend)?;
    drop(congestion);
    caveats.append(&mut lab.caveats);
    for caveat in &caveats {
        eprintln!("caveat: {caveat}");
    }
    for listener in published {
        let net = lab.host(LabHost::Near).net.try_clone();
        net.and_then(|net| forward_connections(listener, net))
            .with_context("cannot start the thread of a published port")?;
    }
    let mut run = LabRun { request, far: None, near: None, processes, lab, caveats, signals };
    let code = run.execute();
    run.end_commands();
    code
}

/// Creates the PID namespace of the commands. When this process ends, however it ends, the kernel
/// kills everything in that namespace, also what a command has left in the background.
fn create_pid_namespace(caveats: &mut Vec<String>) -> Option<PidNamespace> {
    let failed = |error| {
        caveats.push(format!(
            "no PID namespace ({error}): background processes of the command stay after the lab"
        ));
    };
    PidNamespace::create().map_err(failed).ok()
}

/// A path that has been set up, and its commands. Fields are dropped in this order: the PID namespace
/// ends before the path.
struct LabRun<'a> {
    request: &'a LabRunRequest,
    far: Option<Child>,
    near: Option<Child>,
    processes: Option<PidNamespace>,
    lab: RunningLab,
    /// Differences from the requested setup.
    caveats: Vec<String>,
    signals: SignalDescriptor,
}

impl LabRun<'_> {
    fn execute(&mut self) -> Result<i32, LabError> {
        // Write first, so that an unwritable file is reported before the run, not after it.
        self.write_truth(&self.lab.read_state()?).map_err(LabError::into_usage)?;
        let token =
            crate::lab_runtime::generate_random_hex().with_context("cannot create a token")?;
        let far_pid = self.start_far(&token)?;
        let near = NamespaceCommand {
            words: &self.request.command,
            environment: &[
                ("LONGHAUL_TOKEN", &token),
                (LAB_VARIABLE, &self.request.spec.key),
                // Enters host far with `nsenter`.
                ("LONGHAUL_LAB_FAR_PID", &find_visible_pid(far_pid).to_string()),
            ],
            output: None,
            processes: self.processes.as_ref(),
        };
        let near = near.start(self.lab.host(LabHost::Near))?;
        let pid = near.id();
        self.near = Some(near);
        let code = self.supervise(pid)?;
        let reading = self.lab.read_state()?;
        if let Some(caveat) = find_timing_caveat(&reading) {
            eprintln!("caveat: {caveat}");
        }
        self.write_truth(&reading)?;
        Ok(code)
    }

    /// Starts the server, waits until it listens, and returns its process.
    fn start_far(&mut self, token: &str) -> Result<u32, LabError> {
        let own = std::env::current_exe().with_context("cannot find this executable")?;
        let words = [own.into(), "serve".into(), "--stamp".into(), "--stamp-stateful".into()];
        let mut output = create_unnamed_file().with_context("cannot create a temporary file")?;
        let far = NamespaceCommand {
            words: &words,
            environment: &[("LONGHAUL_TOKEN", token)],
            output: Some(&output),
            processes: self.processes.as_ref(),
        };
        let far = self.far.insert(far.start(self.lab.host(LabHost::Far))?);
        let deadline = Instant::now() + LISTEN_DEADLINE;
        while !is_port_open(far.id(), FAR_PORT) {
            let ended = far.try_wait().with_context("cannot wait for the far command")?;
            if let Some(status) = ended {
                let tried = format!("the far command ended ({status}) before it listened");
                return Err(far_command_error(tried, &mut output));
            }
            if Instant::now() > deadline {
                let seconds = LISTEN_DEADLINE.as_secs();
                let tried = format!(
                    "the far command does not listen on TCP port {FAR_PORT} after {seconds} s"
                );
                return Err(far_command_error(tried, &mut output));
            }
            std::thread::sleep(LISTEN_PAUSE);
        }
        Ok(far.id())
    }

    /// Waits for the near command, forwards signals to it, and writes the truth every second.
    fn supervise(&mut self, pid: u32) -> Result<i32, LabError> {
        let ended =
            process_control::open_pidfd(pid).with_context("cannot watch the near command")?;
        let mut next_truth = Instant::now() + TRUTH_EVERY;
        let mut kill_at: Option<Instant> = None;
        loop {
            let truth_at = self.request.truth.is_some().then_some(next_truth);
            let wake_at = [truth_at, kill_at].into_iter().flatten().min();
            let timeout = wake_at.map(|at| at.saturating_duration_since(Instant::now()));
            let polled = [ended.as_fd(), self.lab.ended(), self.signals.as_fd()];
            let [has_ended, engine_ended, _] = poll::wait_readable(polled, timeout)
                .with_context("cannot wait for the near command")?;
            if has_ended {
                break;
            }
            if engine_ended {
                let tried = "the engine thread ended during the run";
                return Err(LabError::new(LabErrorKind::Internal, tried));
            }
            while let Some(received) = self.signals.next() {
                // The terminal has sent its own signals to the command too.
                if !received.from_terminal {
                    let _ = send_signal(pid, received.signal);
                }
                if received.signal != Signal::SIGINT {
                    kill_at.get_or_insert(Instant::now() + END_DEADLINE);
                }
            }
            let now = Instant::now();
            if kill_at.is_some_and(|at| now >= at) {
                let _ = send_signal(pid, Signal::SIGKILL);
                kill_at = Some(now + END_DEADLINE);
            }
            if self.request.truth.is_some() && now >= next_truth {
                next_truth = now + TRUTH_EVERY;
                let reading = self.lab.read_state()?;
                self.write_truth(&reading)?;
            }
        }
        let near = self.near.as_mut().map(Child::wait).transpose();
        let status = near.with_context("cannot wait for the near command")?;
        Ok(status.map_or(0, shell_exit_code))
    }

    fn write_truth(&self, reading: &LabReading) -> Result<(), LabError> {
        let Some(path) = &self.request.truth else {
            return Ok(());
        };
        let mut caveats = self.caveats.clone();
        caveats.extend(find_timing_caveat(reading));
        let truth =
            truth_file::build_truth(&self.request.spec, self.lab.backend, reading, &caveats);
        write_whole_file(path, &format!("{truth:#}\n"))
            .with_context(format!("cannot write the ground truth to {}", path.display()))
    }

    /// Ends what still runs: the near command if it was given up, the far command. Their descendants
    /// end with the PID namespace.
    fn end_commands(&mut self) {
        if let Some(far) = &mut self.far {
            let _ = send_signal(far.id(), Signal::SIGTERM);
            if let Ok(ended) = process_control::open_pidfd(far.id()) {
                let _ = poll::wait_readable([ended.as_fd()], Some(FAR_END_DEADLINE));
            }
        }
        for child in [&mut self.near, &mut self.far].into_iter().flatten() {
            // Fails if it has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.processes = None;
    }
}

fn far_command_error(tried: String, output: &mut File) -> LabError {
    let end = output.metadata().map_or(0, |metadata| metadata.len());
    let from = std::io::SeekFrom::Start(end.saturating_sub(MAX_FAR_OUTPUT_BYTES));
    let mut bytes = Vec::new();
    let read =
        output.seek(from).and_then(|_| output.take(MAX_FAR_OUTPUT_BYTES).read_to_end(&mut bytes));
    let words = String::from_utf8_lossy(&bytes);
    let words = words.trim();
    let hint = match read {
        Ok(_) if !words.is_empty() => format!("check its output: {words}"),
        _ => "check the command: it printed nothing".to_owned(),
    };
    LabError::new(LabErrorKind::Internal, tried).hint(hint)
}

fn is_port_open(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"].into_iter().any(|table| {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}"));
        table.is_ok_and(|table| has_listener(&table, port))
    })
}

fn has_listener(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let local = columns.next().and_then(|local| local.rsplit_once(':'));
        let local_port = local.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        local_port == Some(port) && columns.nth(1) == Some("0A")
    })
}

/// Returns the number by which the commands of the lab know a process: that of their own `/proc`.
fn find_visible_pid(pid: u32) -> u32 {
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let its_root = PathBuf::from(format!("/proc/{pid}/root"));
    if device(&its_root.join("proc")) == device(Path::new("/proc")) {
        return pid;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    parse_innermost_pid(&status).unwrap_or(pid)
}

/// Returns the last number of the line `NSpid:`, that of the innermost PID namespace.
fn parse_innermost_pid(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// The pause after a failed accept, for example if there are no descriptors left.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Binds the port of this host's loopback. Call it before the lab is set up.
fn bind_port(port: u16) -> Result<TcpListener, LabError> {
    if port == 0 {
        return Err(LabError::new(LabErrorKind::Usage, "cannot publish port 0"));
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(format!("cannot publish port {port} on 127.0.0.1"))
        .map_err(|error| error.hint("stop the program that listens there, or publish another port"))
}

/// Forwards connections to the same port in the namespace `net`.
fn forward_connections(outside: TcpListener, net: OwnedFd) -> io::Result<()> {
    let port = outside.local_addr()?.port();
    let forward = move || {
        if let Err(error) = netns::enter_namespace(&net, NamespaceKind::Net) {
            eprintln!("caveat: cannot publish port {port}: {error}");
            return;
        }
        for connection in outside.incoming() {
            let Ok(connection) = connection else {
                std::thread::sleep(ACCEPT_RETRY_PAUSE);
                continue;
            };
            // If the port is not open yet, the client sees a closed connection and tries again.
            std::thread::spawn(move || relay_connection(&connection, port));
        }
    };
    std::thread::Builder::new().name("publish".to_owned()).spawn(forward).map(drop)
}

/// Forwards both directions between `outside` and a port of this namespace.
fn relay_connection(outside: &TcpStream, port: u16) -> io::Result<()> {
    let inside = &TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    std::thread::scope(|scope| {
        scope.spawn(|| copy_until_end(outside, inside));
        copy_until_end(inside, outside);
    });
    Ok(())
}

/// Copies until one side ends, then shuts down the other side.
fn copy_until_end(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// A command for a host of the lab.
struct NamespaceCommand<'a> {
    /// Program and arguments.
    pub words: &'a [OsString],
    /// Variables besides those of the lab.
    pub environment: &'a [(&'a str, &'a str)],
    /// The file for standard output and error of a command without input, in a session of its own.
    pub output: Option<&'a File>,
    pub processes: Option<&'a PidNamespace>,
}

impl NamespaceCommand<'_> {
    fn start(&self, host: &HostNamespace) -> Result<Child, LabError> {
        let [program, arguments @ ..] = self.words else {
            return Err(LabError::new(LabErrorKind::Usage, "no command to run"));
        };
        let tried = format!("cannot start `{}`", program.display());
        let mut command = Command::new(program);
        command.args(arguments).envs(self.environment.iter().copied());
        if let Some(path) = prepend_own_folder() {
            command.env("PATH", path);
        }
        if let Some(file) = self.output {
            let copy = || file.try_clone().with_context(&tried);
            command.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?);
        }
        // The command runs even if the current folder has been removed.
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let start = SpawnOptions {
            host_name: host.name,
            net: host.net.as_fd(),
            mount: host.mount.as_ref().map(AsFd::as_fd),
            pid_namespace: self.processes,
            folder: &folder,
            own_session: self.output.is_some(),
        };
        process_control::spawn_in_namespaces(&mut command, &start).map_err(|error| {
            let is_found = error.kind() != io::ErrorKind::NotFound;
            let failed = LabError::from_io(tried, error);
            if is_found { failed } else { failed.into_usage() }
        })
    }
}

/// Returns PATH with this executable's folder first, so that `longhaul` in a command is the one
/// that runs the lab.
fn prepend_own_folder() -> Option<OsString> {
    let own = std::env::current_exe().ok()?;
    let mut folders = vec![own.parent()?.to_owned()];
    let rest = std::env::var_os("PATH");
    folders.extend(std::env::split_paths(rest.as_deref().unwrap_or(OsStr::new(""))));
    std::env::join_paths(folders).ok()
}

/// Creates a file without a name, which disappears when it is closed.
fn create_unnamed_file() -> io::Result<File> {
    let path = crate::lab_runtime::unique_temp_path("far")?;
    let file = File::options().read(true).append(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Returns the exit code as a shell does: 128 + n if signal n ended the command.
fn shell_exit_code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(70)
}

const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// Gives the machine the settings that the path asks of it, until the guard is dropped.
pub(crate) fn set_machine_sysctls(
    spec: &PathSpec,
    caveats: &mut Vec<String>,
) -> Result<Option<SysctlGuard>, LabError> {
    let wanted = &spec.machine.sysctl;
    if wanted.is_empty() {
        return Ok(None);
    }
    if is_machine_root() {
        return match SysctlGuard::acquire(sysctl_guard::MACHINE, wanted) {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if spec.machine.required => Err(error),
            Err(error) => {
                caveats.push(format!("{error}: {}", format_missing_sysctls(wanted)));
                Ok(None)
            }
        };
    }
    let is_set = |(name, value): (&String, &String)| {
        lab_runtime::read_sysctl(name).is_ok_and(|now| now == lab_runtime::normalize_spaces(value))
    };
    if wanted.iter().all(is_set) {
        return Ok(None);
    }
    if spec.machine.required {
        let tried =
            format!("cannot set up path {} without {}", spec.key, format_missing_sysctls(wanted));
        return Err(LabError::new(LabErrorKind::Unavailable, tried)
            .hint("run as root: these settings apply to the whole machine and last for the run"));
    }
    caveats.push(format!(
        "not root; the machine keeps its own values: {}",
        format_missing_sysctls(wanted)
    ));
    Ok(None)
}

/// Formats the missing settings: `net.core.rmem_max = 65536 (is 4194304)`.
fn format_missing_sysctls(wanted: &BTreeMap<String, String>) -> String {
    let each = wanted.iter().map(|(name, value)| {
        let now = lab_runtime::read_sysctl(name).unwrap_or_else(|_| "not readable".to_owned());
        format!("{name} = {value} (is {now})")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Allows the path's congestion controls while the hosts are created. A namespace can only be given
/// a congestion control that the machine allows to all users; it keeps it when the machine's list
/// is restored.
pub(crate) fn allow_congestion_controls(
    spec: &PathSpec,
    caveats: &mut Vec<String>,
) -> Option<SysctlGuard> {
    let words = |name| lab_runtime::read_sysctl(name).unwrap_or_default();
    let (available, allowed) = (words(AVAILABLE), words(ALLOWED));
    let has = |list: &str, wanted: &str| list.split(' ').any(|word| word == wanted);
    let hosts = [&spec.near, &spec.far];
    let mut list = allowed.clone();
    for wanted in hosts.iter().filter_map(|host| host.sysctl.get(CONGESTION_CONTROL)) {
        if !has(&list, wanted) && has(&available, wanted) {
            list = format!("{list} {wanted}");
        }
    }
    if list == allowed || !is_machine_root() {
        return None;
    }
    let settings = BTreeMap::from([(ALLOWED.to_owned(), list)]);
    // Without a guard the hosts keep the machine's default, and setting them reports it.
    SysctlGuard::acquire(sysctl_guard::CONGESTION_CONTROL, &settings)
        .map_err(|error| caveats.push(error.to_string()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_in_state_listen_on_that_very_port_counts() {
        let table = "  sl  local_address rem_address   st\n\
                     \x20  0: 00000000:1451 00000000:0000 0A 00000000:00000000\n\
                     \x20  1: 0100007F:1452 0100007F:9C40 01 00000000:00000000\n";
        assert!(has_listener(table, 5201));
        assert!(!has_listener(table, 5202), "connected, not listening");
        assert!(!has_listener(table, 80));
        assert!(!has_listener("", 5201));
    }
}

#[cfg(test)]
mod descendant_processes_tests {
    use super::*;

    #[test]
    fn the_innermost_pid_is_the_last_one() {
        assert_eq!(parse_innermost_pid("Pid:\t812\nNSpid:\t812\t3\nThreads:\t1\n"), Some(3));
        assert_eq!(parse_innermost_pid("Pid:\t812\n"), None);
    }
}
