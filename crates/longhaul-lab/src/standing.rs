//! `lab up | exec | down`: persistent labs, kept until they are taken down.
//!
//! A background process holds the path. Its state file has its pid and start time (so that a reused
//! pid is not mistaken for it) and the descriptors of the hosts; its socket answers `truth` and
//! `down`. The files of a dead lab are recognised by its pid and removed.

mod holder;
mod state;

use crate::engine::Host;
use crate::error::{LabError, LabErrorKind, Tried};
use crate::lay::Laid;
use crate::run::{HostCommand, exit_code};
use crate::runtime::Backend;
use crate::runtime::host::HostNamespace;
use crate::spec::PathSpec;
use longhaul_sys::netns::{self, Kind};
use longhaul_sys::signal::{Signals, send};
use longhaul_sys::{poll, process};
use serde_json::Value;
use state::{Folder, State};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The deadline of `up`, longer than a lab may wait for the lock on the machine's sysctls.
const UP_DEADLINE: Duration = Duration::from_secs(70);
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const END_DEADLINE: Duration = Duration::from_secs(10);

/// A persistent lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
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
pub fn up(
    spec: &PathSpec,
    backend: Option<Backend>,
    dispersion: bool,
) -> Result<Standing, LabError> {
    let folder = Folder::open()?;
    if let Some(state) = folder.find(&spec.key)? {
        let tried = format!("{} stands already, pid {}", spec.key, state.standing.pid);
        return Err(LabError::new(LabErrorKind::Usage, tried).hint(format!(
            "take it down first: longhaul lab down {}",
            spec.key
        )));
    }
    let pipe = process::pipe().tried(|| "cannot make a pipe".into())?;
    let (answer, answered) = pipe;
    match process::fork().tried(|| "cannot start a process in the background".into())? {
        process::Fork::Child => {
            drop(answer);
            let laid = || Laid::new(spec, backend, dispersion);
            holder::hold(spec, &folder, laid, answered)
        }
        process::Fork::Parent { .. } => {
            drop(answered);
            await_holder(answer)
        }
    }
}

fn await_holder(answer: OwnedFd) -> Result<Standing, LabError> {
    let failed = || LabError::new(LabErrorKind::Internal, "the lab ended before it stood");
    let [answered] = poll::readable([answer.as_fd()], Some(UP_DEADLINE))
        .tried(|| "cannot wait for the lab".into())?;
    if !answered {
        return Err(failed());
    }
    // Read the first document, not to the end of the pipe: the guard of the machine's settings
    // keeps the pipe open as long as the lab exists.
    let answer = File::from(answer).take(ANSWER_BYTES_MAX);
    let mut documents = serde_json::Deserializer::from_reader(answer).into_iter::<Value>();
    let value = documents.next().and_then(Result::ok).ok_or_else(failed)?;
    if let Some(error) = state::error_in(&value) {
        return Err(error);
    }
    State::from_value(&value)
        .map(|state| state.standing)
        .ok_or_else(failed)
}

/// Runs a command at a host of a persistent lab and returns its exit code. The process must have
/// only one thread, and may be in the lab's user namespace afterwards.
pub fn exec(key: &str, host: Host, command: &[OsString]) -> Result<i32, LabError> {
    if command.is_empty() {
        return Err(LabError::new(LabErrorKind::Usage, "no command to run"));
    }
    let state = found(key)?;
    let signals = Signals::take().tried(|| "cannot take over the signals".into())?;
    let namespace = open_host(&state, host).tried(|| format!("cannot enter lab {key}"))?;
    let mut child = HostCommand::new(command, key).start(&namespace)?;
    let ended = process::watch(child.id()).tried(|| "cannot watch the command".into())?;
    loop {
        let polled = [ended.as_fd(), signals.as_fd()];
        let [has_ended, _] =
            poll::readable(polled, None).tried(|| "cannot wait for the command".into())?;
        if has_ended {
            break;
        }
        while let Some(came) = signals.next() {
            if !came.from_terminal {
                // Fails if the command has just ended.
                let _ = send(child.id(), came.signal);
            }
        }
    }
    let status = child
        .wait()
        .tried(|| "cannot wait for the command".into())?;
    Ok(exit_code(status))
}

fn open_host(state: &State, host: Host) -> std::io::Result<HostNamespace> {
    let pid = state.standing.pid;
    let theirs = format!("/proc/{pid}/ns/user");
    if std::fs::metadata(&theirs)?.ino() != std::fs::metadata("/proc/self/ns/user")?.ino() {
        netns::enter(File::open(&theirs)?, Kind::User)?;
    }
    let (name, held) = match host {
        Host::Near => ("near", state.near),
        Host::Far => ("far", state.far),
    };
    let open = |number: i32| File::open(format!("/proc/{pid}/fd/{number}")).map(OwnedFd::from);
    Ok(HostNamespace {
        name,
        net: open(held.net)?,
        mount: held.mount.map(open).transpose()?,
    })
}

/// Takes a persistent lab down, and waits until it is gone.
pub fn down(key: &str) -> Result<(), LabError> {
    let state = found(key)?;
    let ended = process::watch(state.standing.pid).tried(|| format!("cannot watch lab {key}"))?;
    ask(&state, "down")?;
    let began = Instant::now();
    let [gone] = poll::readable([ended.as_fd()], Some(END_DEADLINE))
        .tried(|| format!("cannot wait for lab {key}"))?;
    if gone {
        return Ok(());
    }
    let tried = format!(
        "lab {key} has not ended after {} s",
        began.elapsed().as_secs()
    );
    let hint = format!("kill {}", state.standing.pid);
    Err(LabError::new(LabErrorKind::Internal, tried).hint(hint))
}

/// Returns the ground truth of a persistent lab as JSON.
pub fn truth(key: &str) -> Result<Value, LabError> {
    let answer = ask(&found(key)?, "truth")?;
    serde_json::from_str(&answer).map_err(|_| {
        LabError::new(
            LabErrorKind::Internal,
            format!("lab {key} answers nonsense"),
        )
    })
}

/// Returns all persistent labs of this user, sorted by key.
pub fn list() -> Result<Vec<Standing>, LabError> {
    Ok(Folder::open()?
        .all()?
        .into_iter()
        .map(|state| state.standing)
        .collect())
}

fn found(key: &str) -> Result<State, LabError> {
    let found = Folder::open()?.find(key)?;
    found.ok_or_else(|| {
        let tried = format!("no lab {key} stands");
        LabError::new(LabErrorKind::Usage, tried).hint(format!("longhaul lab up {key}"))
    })
}

fn ask(state: &State, question: &str) -> Result<String, LabError> {
    let key = &state.standing.key;
    let socket = Folder::open()?
        .socket(key)
        .tried(|| format!("cannot ask lab {key}"))?;
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
    converse().tried(|| format!("cannot ask lab {key}"))
}
