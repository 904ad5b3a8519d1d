//! `lab up | exec | down`: persistent labs, kept until they are taken down.
//!
//! A background process holds the path. Its state file has its pid and start time (so that a reused
//! pid is not mistaken for it) and the descriptors of the hosts; its socket answers `read_truth` and
//! `stop_lab`. The files of a dead lab are recognised by its pid and removed.

mod lab_holder;
mod lab_state;

use crate::emulation_engine::LabHost;
use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::lab_run::{NamespaceCommand, shell_exit_code};
use crate::lab_runtime::LabBackend;
use crate::lab_runtime::host_namespace::HostNamespace;
use crate::lab_setup::GuardedLab;
use crate::path_spec::PathSpec;
use lab_state::{HolderFailure, LabFolder, LabState};
use longhaul_sys::netns::{self, NamespaceKind};
use longhaul_sys::signal::{SignalDescriptor, send_signal};
use longhaul_sys::{poll, process_control};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The deadline of `start_lab`, longer than a lab may wait for the lock on the machine's sysctls.
const UP_DEADLINE: Duration = Duration::from_secs(70);
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const END_DEADLINE: Duration = Duration::from_secs(10);

/// A persistent lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentLab {
    pub key: String,
    /// The sentence that describes the path.
    pub name: String,
    pub pid: u32,
    pub backend: String,
    /// Differences from the requested setup.
    pub caveats: Vec<String>,
}

/// Sets up the path in a background process. This process must have only one thread.
///
/// # Errors
/// A usage error if a lab of that key exists already; otherwise the reason why it could not be set
/// up.
pub fn start_lab(
    spec: &PathSpec,
    backend: Option<LabBackend>,
    dispersion: bool,
) -> Result<PersistentLab, LabError> {
    let folder = LabFolder::open()?;
    if let Some(state) = folder.find(&spec.key)? {
        let tried = format!("lab {} is already running, pid {}", spec.key, state.lab.pid);
        return Err(LabError::new(LabErrorKind::Usage, tried)
            .hint(format!("stop it first: `longhaul lab down {}`", spec.key)));
    }
    let (answer, answered) = std::io::pipe().with_context("cannot create a pipe")?;
    match process_control::fork_process()
        .with_context("cannot start a process in the background")?
    {
        process_control::ForkSide::Child => {
            drop(answer);
            let set_up = || GuardedLab::new(spec, backend, dispersion);
            lab_holder::run_holder(spec, &folder, set_up, answered)
        }
        process_control::ForkSide::Parent { .. } => {
            drop(answered);
            await_holder(answer)
        }
    }
}

fn await_holder(answer: std::io::PipeReader) -> Result<PersistentLab, LabError> {
    let failed = || LabError::new(LabErrorKind::Internal, "the lab ended before it was ready");
    let [answered] = poll::wait_readable([answer.as_fd()], Some(UP_DEADLINE))
        .with_context("cannot wait for the lab")?;
    if !answered {
        return Err(failed());
    }
    // Read the first document, not to the end of the pipe: the guard of the machine's settings
    // keeps the pipe open as long as the lab exists.
    let answer = answer.take(ANSWER_BYTES_MAX);
    let mut answers = serde_json::Deserializer::from_reader(answer).into_iter();
    let answer: Result<LabState, HolderFailure> =
        answers.next().and_then(Result::ok).ok_or_else(failed)?;
    Ok(answer?.lab)
}

/// Runs a command at a host of a persistent lab and returns its exit code. The process must have
/// only one thread, and may be in the lab's user namespace afterwards.
pub fn exec_command(key: &str, host: LabHost, command: &[OsString]) -> Result<i32, LabError> {
    if command.is_empty() {
        return Err(LabError::new(LabErrorKind::Usage, "no command to run"));
    }
    let state = find_lab(key)?;
    let signals =
        SignalDescriptor::block_and_open().with_context("cannot take over signal handling")?;
    let namespace =
        open_host_namespace(&state, host).with_context(format!("cannot enter lab {key}"))?;
    let mut child = NamespaceCommand::new(command, key).start(&namespace)?;
    let ended = process_control::open_pidfd(child.id()).with_context("cannot watch the command")?;
    loop {
        let polled = [ended.as_fd(), signals.as_fd()];
        let [has_ended, _] =
            poll::wait_readable(polled, None).with_context("cannot wait for the command")?;
        if has_ended {
            break;
        }
        while let Some(received) = signals.next() {
            if !received.from_terminal {
                // Fails if the command has just ended.
                let _ = send_signal(child.id(), received.signal);
            }
        }
    }
    let status = child.wait().with_context("cannot wait for the command")?;
    Ok(shell_exit_code(status))
}

fn open_host_namespace(state: &LabState, host: LabHost) -> std::io::Result<HostNamespace> {
    let pid = state.lab.pid;
    let theirs = format!("/proc/{pid}/ns/user");
    if std::fs::metadata(&theirs)?.ino() != std::fs::metadata("/proc/self/ns/user")?.ino() {
        netns::enter_namespace(File::open(&theirs)?, NamespaceKind::User)?;
    }
    let held = state.hosts[host as usize];
    let open = |number: i32| File::open(format!("/proc/{pid}/fd/{number}")).map(OwnedFd::from);
    Ok(HostNamespace {
        name: host.name(),
        net: open(held.net)?,
        mount: held.mount.map(open).transpose()?,
    })
}

/// Takes a persistent lab down, and waits until it is gone.
pub fn stop_lab(key: &str) -> Result<(), LabError> {
    let state = find_lab(key)?;
    let ended = process_control::open_pidfd(state.lab.pid)
        .with_context(format!("cannot watch lab {key}"))?;
    send_request(&state, "down")?;
    let began = Instant::now();
    let [gone] = poll::wait_readable([ended.as_fd()], Some(END_DEADLINE))
        .with_context(format!("cannot wait for lab {key}"))?;
    if gone {
        return Ok(());
    }
    let tried = format!("lab {key} did not end within {} s", began.elapsed().as_secs());
    let hint = format!("end it: `kill {}`", state.lab.pid);
    Err(LabError::new(LabErrorKind::Internal, tried).hint(hint))
}

/// Returns the ground truth of a persistent lab as JSON.
pub fn read_truth(key: &str) -> Result<Value, LabError> {
    let answer = send_request(&find_lab(key)?, "truth")?;
    serde_json::from_str(&answer).map_err(|_| {
        LabError::new(LabErrorKind::Internal, format!("lab {key} sent an invalid answer"))
    })
}

/// Returns all persistent labs of this user, sorted by key.
pub fn list_labs() -> Result<Vec<PersistentLab>, LabError> {
    Ok(LabFolder::open()?.all()?.into_iter().map(|state| state.lab).collect())
}

fn find_lab(key: &str) -> Result<LabState, LabError> {
    let found = LabFolder::open()?.find(key)?;
    found.ok_or_else(|| {
        let tried = format!("lab {key} is not running");
        LabError::new(LabErrorKind::Usage, tried).hint(format!("start it: `longhaul lab up {key}`"))
    })
}

fn send_request(state: &LabState, question: &str) -> Result<String, LabError> {
    let key = &state.lab.key;
    let socket = LabFolder::open()?
        .socket(key)
        .with_context(format!("cannot send a request to lab {key}"))?;
    let converse = || {
        let mut socket = UnixStream::connect(socket)?;
        socket.set_read_timeout(Some(ANSWER_DEADLINE))?;
        socket.set_write_timeout(Some(ANSWER_DEADLINE))?;
        socket.write_all(question.as_bytes())?;
        socket.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        socket.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        Ok(answer)
    };
    converse().with_context(format!("cannot send a request to lab {key}"))
}
