//! `lab run`: sets up a path, starts `longhaul serve` at the far host, runs one command at the near
//! host, and always undoes everything.

mod descendant_processes;
mod listening_port;
mod namespace_command;
mod published_port;

use crate::emulation_engine::LabHost;
use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::lab_runtime::{
    LabBackend, LabReading, RunningLab, find_timing_caveat, write_whole_file,
};
use crate::path_spec::PathSpec;
use crate::sysctl_guard::SysctlGuard;
use crate::{lab_privileges, machine_settings, truth_file};
use longhaul_sys::signal::{Signal, SignalDescriptor, send_signal};
use longhaul_sys::{poll, process_control};
use namespace_command::{NamespaceCommand, shell_exit_code};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// The port that `longhaul serve` at host far must open before the near command starts.
const FAR_PORT: u16 = 5201;
const LISTEN_DEADLINE: Duration = Duration::from_secs(30);
const LISTEN_PAUSE: Duration = Duration::from_millis(5);
const TRUTH_EVERY: Duration = Duration::from_secs(1);
/// The time that a command may take to end after it was requested to.
const END_DEADLINE: Duration = Duration::from_secs(10);
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
    process_control::adopt_orphans()
        .with_context("cannot become the parent of orphaned commands")?;
    let ports = request.publish.iter().map(|port| published_port::bind_port(*port));
    let published: Vec<_> = ports.collect::<Result<_, LabError>>()?;
    // A user namespace and the guards need a process with one thread; the engine comes after them.
    let mut caveats = Vec::new();
    let machine = machine_settings::set_machine_sysctls(&request.spec, &mut caveats)?;
    let congestion = machine_settings::allow_congestion_controls(&request.spec, &mut caveats);
    lab_privileges::acquire_privileges()?;
    let mut lab = RunningLab::set_up(&request.spec, request.backend)?;
    drop(congestion);
    caveats.append(&mut lab.caveats);
    for caveat in &caveats {
        eprintln!("caveat: {caveat}");
    }
    for listener in published {
        let net = lab.host(LabHost::Near).net.try_clone();
        net.and_then(|net| published_port::forward_connections(listener, net))
            .with_context("cannot start the thread of a published port")?;
    }
    let mut run = LabRun { request, lab, machine, caveats, signals, far: None, near: None };
    let code = run.execute();
    run.end_commands();
    code
}

/// A path that has been set up, and its commands. Fields are dropped in this order.
struct LabRun<'a> {
    request: &'a LabRunRequest,
    lab: RunningLab,
    /// A child that must outlive all others.
    machine: Option<SysctlGuard>,
    /// Differences from the requested setup.
    caveats: Vec<String>,
    signals: SignalDescriptor,
    far: Option<Child>,
    near: Option<Child>,
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
                // Enters host far with `nsenter`.
                ("LONGHAUL_LAB_FAR_PID", &far_pid.to_string()),
            ],
            output: None,
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
        let words = [own.into(), "serve".into()];
        let mut output = namespace_command::create_unnamed_file()
            .with_context("cannot create a temporary file")?;
        let far = NamespaceCommand {
            words: &words,
            environment: &[("LONGHAUL_TOKEN", token)],
            output: Some(&output),
        };
        let far = self.far.insert(far.start(self.lab.host(LabHost::Far))?);
        let deadline = Instant::now() + LISTEN_DEADLINE;
        while !listening_port::is_port_open(far.id(), FAR_PORT) {
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

    /// Ends what still runs: the near command if it was given up, the far command, their
    /// descendants.
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
        let guard = self.machine.as_ref().map(SysctlGuard::pid);
        descendant_processes::kill_descendants(guard);
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
