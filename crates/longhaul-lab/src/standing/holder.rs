//! The background process that holds a persistent lab.

use super::Standing;
use super::state::{self, Folder, Held, State};
use crate::engine::Host;
use crate::error::{LabError, Tried};
use crate::lay::Laid;
use crate::runtime::timing_caveat;
use crate::spec::PathSpec;
use crate::truth_file;
use longhaul_sys::signal::Signals;
use longhaul_sys::{poll, process};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

const QUESTION_BYTES_MAX: u64 = 64;
const QUESTION_DEADLINE: Duration = Duration::from_secs(1);

/// Sets up the path, reports the result, and holds the path until told to end.
pub(super) fn hold(
    spec: &PathSpec,
    folder: &Folder,
    lay: impl FnOnce() -> Result<Laid, LabError>,
    answer: OwnedFd,
) -> ! {
    let mut answer = File::from(answer);
    let code = match stand(spec, folder, lay) {
        Ok((held, state)) => {
            // The requesting process may be gone; the lab exists anyway, as the state file says.
            let _ = write!(answer, "{}", state.to_value());
            drop(answer);
            held.serve(spec, folder);
            0
        }
        Err(error) => {
            let _ = write!(answer, "{}", state::error_value(&error));
            1
        }
    };
    process::exit_now(code)
}

struct Holder {
    laid: Laid,
    signals: Signals,
    listener: UnixListener,
}

fn stand(
    spec: &PathSpec,
    folder: &Folder,
    lay: impl FnOnce() -> Result<Laid, LabError>,
) -> Result<(Holder, State), LabError> {
    go_to_background().tried(|| "cannot go to the background".into())?;
    let signals = Signals::take().tried(|| "cannot take over the signals".into())?;
    let laid = lay()?;
    let key = &spec.key;
    let listen = || {
        folder.remove(key)?;
        let listener = UnixListener::bind(folder.socket(key)?)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listener = listen().tried(|| "cannot make the lab's socket".into())?;
    let pid = std::process::id();
    let held = |host| {
        let host = laid.lab.host(host);
        Held {
            net: host.net.as_raw_fd(),
            mount: host.mount.as_ref().map(AsRawFd::as_raw_fd),
        }
    };
    let state = State {
        standing: Standing {
            key: key.clone(),
            name: spec.name.clone(),
            pid,
            backend: laid.lab.backend.name().to_owned(),
            caveats: laid.caveats.clone(),
        },
        started_ticks: state::started_ticks(pid).unwrap_or_default(),
        near: held(Host::Near),
        far: held(Host::Far),
    };
    folder
        .write(&state)
        .tried(|| "cannot write the lab's state".into())?;
    let holder = Holder {
        laid,
        signals,
        listener,
    };
    Ok((holder, state))
}

fn go_to_background() -> io::Result<()> {
    process::new_session()?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    process::redirect_standard(nothing)?;
    std::env::set_current_dir("/")
}

impl Holder {
    /// Serves until a `down` request or a signal.
    fn serve(self, spec: &PathSpec, folder: &Folder) {
        loop {
            let polled = [self.listener.as_fd(), self.signals.as_fd()];
            let Ok([asked, _]) = poll::readable(polled, None) else {
                break;
            };
            if self.signals.next().is_some() {
                break;
            }
            if asked
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
        (&socket)
            .take(QUESTION_BYTES_MAX)
            .read_to_string(&mut question)?;
        match question.as_str() {
            "down" => {
                socket.write_all(b"{}")?;
                return Ok(false);
            }
            "truth" => {
                let reading = self.laid.lab.read().map_err(io::Error::other)?;
                let mut caveats = self.laid.caveats.clone();
                caveats.extend(timing_caveat(&reading));
                let backend = self.laid.lab.backend;
                let truth = truth_file::truth(spec, backend, &reading, &caveats);
                socket.write_all(truth.to_string().as_bytes())?;
            }
            _ => socket.write_all(b"{\"error\": \"ask for truth or down\"}")?,
        }
        Ok(true)
    }
}
