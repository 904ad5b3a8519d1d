//! The background process that holds a persistent lab.

use super::PersistentLab;
use super::lab_state::{self, HolderFailure, HostDescriptors, LabFolder, LabState};
use crate::emulation_engine::LabHost;
use crate::lab_error::{LabError, LabErrorContext};
use crate::lab_setup::GuardedLab;
use crate::path_spec::PathSpec;
use longhaul_sys::signal::SignalDescriptor;
use longhaul_sys::{poll, process_control};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

const QUESTION_BYTES_MAX: u64 = 64;
const QUESTION_DEADLINE: Duration = Duration::from_secs(1);

/// Sets up the path, reports the result, and holds the path until told to end.
pub(super) fn run_holder(
    spec: &PathSpec,
    folder: &LabFolder,
    set_up: impl FnOnce() -> Result<GuardedLab, LabError>,
    answer: io::PipeWriter,
) -> ! {
    let (held, answered) = match start_holder(spec, folder, set_up) {
        Ok((held, state)) => (Some(held), Ok(state)),
        Err(error) => (None, Err(HolderFailure::from(error))),
    };
    // The requesting process may be gone; the lab exists anyway, as the state file says.
    let _ = serde_json::to_writer(&answer, &answered);
    drop(answer);
    if let Some(held) = held {
        held.serve(spec, folder);
    }
    process_control::exit_now(i32::from(answered.is_err()))
}

struct LabHolder {
    guarded: GuardedLab,
    signals: SignalDescriptor,
    listener: UnixListener,
}

fn start_holder(
    spec: &PathSpec,
    folder: &LabFolder,
    set_up: impl FnOnce() -> Result<GuardedLab, LabError>,
) -> Result<(LabHolder, LabState), LabError> {
    detach_process().with_context("cannot detach from the terminal")?;
    let signals =
        SignalDescriptor::block_and_open().with_context("cannot take over signal handling")?;
    let guarded = set_up()?;
    let key = &spec.key;
    let listen = || {
        folder.remove(key)?;
        let listener = UnixListener::bind(folder.socket(key)?)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listener = listen().with_context("cannot create the socket of the lab")?;
    let pid = std::process::id();
    let held = |host| {
        let host = guarded.lab.host(host);
        HostDescriptors {
            net: host.net.as_raw_fd(),
            mount: host.mount.as_ref().map(AsRawFd::as_raw_fd),
        }
    };
    let state = LabState {
        lab: PersistentLab {
            key: key.clone(),
            name: spec.name.clone(),
            pid,
            backend: guarded.lab.backend.name().to_owned(),
            caveats: guarded.caveats.clone(),
        },
        started_ticks: lab_state::read_start_ticks(pid).unwrap_or_default(),
        hosts: [LabHost::Near, LabHost::Far].map(held),
    };
    folder.write(&state).with_context("cannot write the state of the lab")?;
    let holder = LabHolder { guarded, signals, listener };
    Ok((holder, state))
}

fn detach_process() -> io::Result<()> {
    process_control::new_session()?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    process_control::redirect_standard(nothing)?;
    std::env::set_current_dir("/")
}

impl LabHolder {
    /// Serves until a `down` request or a signal.
    fn serve(self, spec: &PathSpec, folder: &LabFolder) {
        loop {
            let polled = [self.listener.as_fd(), self.signals.as_fd()];
            let Ok([is_requested, _]) = poll::wait_readable(polled, None) else {
                break;
            };
            if self.signals.next().is_some() {
                break;
            }
            if is_requested
                && let Ok((socket, _)) = self.listener.accept()
                && !self.answer(spec, socket).unwrap_or(true)
            {
                break;
            }
        }
        // A new lab with this key creates its files only after these are removed.
        let _ = folder.remove(&spec.key);
    }

    /// Answers one request; returns false if the lab must end.
    fn answer(&self, spec: &PathSpec, mut socket: UnixStream) -> io::Result<bool> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(QUESTION_DEADLINE))?;
        socket.set_write_timeout(Some(QUESTION_DEADLINE))?;
        let mut question = String::new();
        (&socket).take(QUESTION_BYTES_MAX).read_to_string(&mut question)?;
        match question.as_str() {
            "down" => {
                socket.write_all(b"{}")?;
                return Ok(false);
            }
            "truth" => {
                let reading = self.guarded.lab.read_state().map_err(io::Error::other)?;
                let truth = self.guarded.build_truth(spec, &reading);
                socket.write_all(truth.to_string().as_bytes())?;
            }
            _ => socket.write_all(b"{\"error\": \"ask for truth or down\"}")?,
        }
        Ok(true)
    }
}
