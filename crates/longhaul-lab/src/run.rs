//! `lab run`: sets up a path, starts the far command, runs one command at the near host, and always
//! undoes everything.

mod command;
mod descendants;
mod listening;
mod publish;

use crate::engine::Host;
use crate::error::{LabError, LabErrorKind, Tried};
use crate::lay::Laid;
use crate::runtime::{Backend, Reading, timing_caveat};
use crate::spec::PathSpec;
use crate::truth_file;
pub(crate) use command::{HostCommand, exit_code};
use longhaul_sys::signal::{Signal, Signals, send};
use longhaul_sys::{poll, process};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// The port that the far command must open before the near command starts.
pub const FAR_PORT: u16 = 5201;
const LISTEN_DEADLINE: Duration = Duration::from_secs(30);
const LISTEN_PAUSE: Duration = Duration::from_millis(5);
const TRUTH_EVERY: Duration = Duration::from_secs(1);
/// The time that a command may take to end after it was asked to.
const END_DEADLINE: Duration = Duration::from_secs(10);
const FAR_END_DEADLINE: Duration = Duration::from_secs(2);
/// The number of bytes of a failed far command's output that are shown.
const LAST_WORDS_MAX: u64 = 4096;

/// A command to run, and the path to run it on.
#[derive(Debug, Clone)]
pub struct RunRequest {
    pub spec: PathSpec,
    /// Program and arguments, run at host near.
    pub command: Vec<OsString>,
    /// Program and arguments, run at host far; `None` runs this executable with `serve`.
    pub far_command: Option<Vec<OsString>>,
    /// The TCP port that the far command must open before the run; `None` does not wait.
    pub far_port: Option<u16>,
    /// TCP ports of host near that are also reachable on this host's loopback.
    pub publish: Vec<u16>,
    /// The file for the ground truth, written every second and at the end.
    pub truth: Option<PathBuf>,
    /// `None` uses `LONGHAUL_LAB_BACKEND`, or the best available backend.
    pub backend: Option<Backend>,
    /// Keeps idle cores awake, for measurements of dispersion.
    pub dispersion: bool,
}

impl RunRequest {
    /// Creates the default request: `longhaul serve` at host far, no truth file.
    pub fn new(spec: PathSpec, command: Vec<OsString>) -> RunRequest {
        RunRequest {
            spec,
            command,
            far_command: None,
            far_port: Some(FAR_PORT),
            publish: Vec::new(),
            truth: None,
            backend: None,
            dispersion: false,
        }
    }
}

/// Runs a command and returns its exit code (128 + n if signal n ended it). The process must have
/// only one thread and should end soon after, because it may be in its own user namespace by then.
///
/// # Errors
/// The path could not be set up, or a command could not be started.
pub fn run(request: &RunRequest) -> Result<i32, LabError> {
    if request.command.is_empty() {
        return Err(LabError::new(
            LabErrorKind::Usage,
            "no command to run at the near host",
        ));
    }
    let signals = Signals::take().tried(|| "cannot take over the signals".into())?;
    process::adopt_orphans().tried(|| "cannot adopt the orphans of commands".into())?;
    let published = publish::bind_all(&request.publish)?;
    let laid = Laid::new(&request.spec, request.backend, request.dispersion)?;
    for caveat in &laid.caveats {
        eprintln!("caveat: {caveat}");
    }
    for port in published {
        let net = laid.lab.host(Host::Near).net.as_fd();
        let net = net.try_clone_to_owned();
        port.serve(net.tried(|| "cannot share the namespace of host near".into())?)?;
    }
    let mut run = Run {
        request,
        laid,
        signals,
        far: None,
        near: None,
    };
    let code = run.carry_out();
    run.end_commands();
    code
}

struct Run<'a> {
    request: &'a RunRequest,
    laid: Laid,
    signals: Signals,
    far: Option<Child>,
    near: Option<Child>,
}

impl Run<'_> {
    fn carry_out(&mut self) -> Result<i32, LabError> {
        // Write first, so that an unwritable file is reported before the run, not after it.
        self.write_truth(&self.laid.lab.read()?)
            .map_err(LabError::of_usage)?;
        let token = crate::runtime::random_hex().tried(|| "cannot make a token".into())?;
        self.start_far(&token)?;
        let mut near = HostCommand::new(&self.request.command, &self.request.spec.key);
        near.token(&token);
        let near = near.start(self.laid.lab.host(Host::Near))?;
        let pid = near.id();
        self.near = Some(near);
        let code = self.supervise(pid)?;
        let reading = self.laid.lab.read()?;
        if let Some(caveat) = timing_caveat(&reading) {
            eprintln!("caveat: {caveat}");
        }
        self.write_truth(&reading)?;
        Ok(code)
    }

    fn start_far(&mut self, token: &str) -> Result<(), LabError> {
        let own = command::own_serve();
        let words = match &self.request.far_command {
            Some(words) => words,
            None => &own.tried(|| "cannot find this executable".into())?,
        };
        let mut output = command::unnamed_file().tried(|| "cannot make a temporary file".into())?;
        let mut far = HostCommand::new(words, &self.request.spec.key);
        far.token(token);
        far.output(&output)?;
        far.own_session = true;
        let far = self.far.insert(far.start(self.laid.lab.host(Host::Far))?);
        let Some(port) = self.request.far_port else {
            return Ok(());
        };
        let deadline = Instant::now() + LISTEN_DEADLINE;
        while !listening::listens(far.id(), port) {
            let ended = far
                .try_wait()
                .tried(|| "cannot wait for the far command".into())?;
            if let Some(status) = ended {
                let tried = format!("the far command ended ({status}) before it listened");
                return Err(failed_far(tried, &mut output));
            }
            if Instant::now() > deadline {
                let tried = format!("the far command does not listen on TCP port {port} after 5 s");
                return Err(failed_far(tried, &mut output));
            }
            std::thread::sleep(LISTEN_PAUSE);
        }
        Ok(())
    }

    /// Waits for the near command, forwards signals to it, and writes the truth every second.
    fn supervise(&mut self, pid: u32) -> Result<i32, LabError> {
        let ended = process::watch(pid).tried(|| "cannot watch the near command".into())?;
        let mut next_truth = Instant::now() + TRUTH_EVERY;
        let mut kill_at: Option<Instant> = None;
        loop {
            let truth_at = self.request.truth.is_some().then_some(next_truth);
            let wake_at = [truth_at, kill_at].into_iter().flatten().min();
            let timeout = wake_at.map(|at| at.saturating_duration_since(Instant::now()));
            let polled = [ended.as_fd(), self.laid.lab.ended(), self.signals.as_fd()];
            let [has_ended, engine_ended, _] = poll::readable(polled, timeout)
                .tried(|| "cannot wait for the near command".into())?;
            if has_ended {
                break;
            }
            if engine_ended {
                let tried = "the engine thread ended during the run";
                return Err(LabError::new(LabErrorKind::Internal, tried));
            }
            while let Some(came) = self.signals.next() {
                // The terminal has sent its own signals to the command too.
                if !came.from_terminal {
                    let _ = send(pid, came.signal);
                }
                if came.signal != Signal::Interrupt {
                    kill_at.get_or_insert(Instant::now() + END_DEADLINE);
                }
            }
            let now = Instant::now();
            if kill_at.is_some_and(|at| now >= at) {
                let _ = send(pid, Signal::Kill);
                kill_at = Some(now + END_DEADLINE);
            }
            if self.request.truth.is_some() && now >= next_truth {
                next_truth = now + TRUTH_EVERY;
                let reading = self.laid.lab.read()?;
                self.write_truth(&reading)?;
            }
        }
        let near = self.near.as_mut().map(Child::wait).transpose();
        let status = near.tried(|| "cannot wait for the near command".into())?;
        Ok(status.map_or(0, exit_code))
    }

    fn write_truth(&self, reading: &Reading) -> Result<(), LabError> {
        let Some(path) = &self.request.truth else {
            return Ok(());
        };
        let mut caveats = self.laid.caveats.clone();
        caveats.extend(timing_caveat(reading));
        let truth = truth_file::truth(&self.request.spec, self.laid.lab.backend, reading, &caveats);
        truth_file::write(path, &truth)
            .tried(|| format!("cannot write the ground truth to {}", path.display()))
    }

    /// Ends what still runs: the near command if it was given up, the far command, their
    /// descendants.
    fn end_commands(&mut self) {
        if let Some(far) = &mut self.far {
            let _ = send(far.id(), Signal::Terminate);
            if let Ok(ended) = process::watch(far.id()) {
                let _ = poll::readable([ended.as_fd()], Some(FAR_END_DEADLINE));
            }
        }
        for child in [&mut self.near, &mut self.far].into_iter().flatten() {
            // Fails if it has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        descendants::end_all(self.laid.guard_pid());
    }
}

fn failed_far(tried: String, output: &mut File) -> LabError {
    let end = output.metadata().map_or(0, |metadata| metadata.len());
    let from = std::io::SeekFrom::Start(end.saturating_sub(LAST_WORDS_MAX));
    let mut bytes = Vec::new();
    let read = output
        .seek(from)
        .and_then(|_| output.take(LAST_WORDS_MAX).read_to_end(&mut bytes));
    let words = String::from_utf8_lossy(&bytes);
    let words = words.trim();
    let said = match read {
        Ok(_) if !words.is_empty() => format!("it said: {words}"),
        _ => "it said nothing".to_owned(),
    };
    LabError::new(LabErrorKind::Internal, tried).hint(said)
}
