//! Sets machine-wide sysctls while a lab runs, under a lock, and always restores them.
//!
//! A guard process holds the read end of a pipe; only the lab has the write end. When the lab ends,
//! however it ends, the pipe closes and the guard restores the values. If the guard is killed too,
//! its state file remains, and the next guard of that name restores from it first.

use crate::error::{LabError, LabErrorKind, Tried};
use crate::runtime::sysctl;
use longhaul_sys::process::{self, Fork};
use longhaul_sys::{poll, signal};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FOLDER: &str = "/run/longhaul-lab";
const LOCK_DEADLINE: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const RESTORE_DEADLINE: Duration = Duration::from_secs(5);
const STATE_BYTES_MAX: u64 = 1 << 16;

/// The settings to guard; each set has its own lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarded {
    /// Guarded for the whole run.
    Machine,
    /// The congestion controls that a namespace may use; guarded only while the hosts are created.
    CongestionControl,
}

impl Guarded {
    fn file(self, end: &str) -> PathBuf {
        let name = match self {
            Guarded::Machine => "machine",
            Guarded::CongestionControl => "congestion-control",
        };
        Path::new(FOLDER).join(format!("{name}.{end}"))
    }
}

/// A guard of changed settings; dropping it restores them.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Closing it tells the guard process to restore.
    alive: Option<OwnedFd>,
    process: OwnedFd,
    pub pid: u32,
}

impl Guard {
    /// Sets `settings` as soon as no other lab holds the lock. The process must have only one
    /// thread.
    pub(crate) fn hold(
        guarded: Guarded,
        settings: &BTreeMap<String, String>,
    ) -> Result<Guard, LabError> {
        let lock = lock(guarded)?;
        let state = guarded.file("state");
        restore_from(&state).tried(|| "cannot restore what an earlier lab left".into())?;
        let before = read_all(settings)?;
        write_state(&state, &before).tried(|| format!("cannot write {}", state.display()))?;
        let guard = start(&lock, &state, &before)
            .tried(|| "cannot start the process that restores sysctls".into())?;
        for (name, value) in settings {
            // On an error the guard is dropped, which restores what was set so far.
            sysctl::write(name, value).tried(|| format!("cannot set {name} = {value}"))?;
        }
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.alive = None;
        // A slower guard still restores; the lab just does not wait for it.
        let _ = poll::readable([self.process.as_fd()], Some(RESTORE_DEADLINE));
        let _ = process::reap(self.pid);
    }
}

fn lock(guarded: Guarded) -> Result<File, LabError> {
    let path = guarded.file("lock");
    let open = || {
        fs::create_dir_all(FOLDER)?;
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
    };
    let mut file = open().tried(|| format!("cannot open {}", path.display()))?;
    let deadline = Instant::now() + LOCK_DEADLINE;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => {
                return Err(LabError::call(
                    format!("cannot lock {}", path.display()),
                    error,
                ));
            }
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(held_by_another(&mut file));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
    let note = || {
        file.set_len(0)?;
        (&file).write_all(std::process::id().to_string().as_bytes())
    };
    note().tried(|| format!("cannot write {}", path.display()))?;
    Ok(file)
}

fn held_by_another(file: &mut File) -> LabError {
    let mut pid = String::new();
    // The pid is only for the message.
    let _ = file.take(16).read_to_string(&mut pid);
    let tried = format!(
        "another lab run holds the machine's sysctls, pid {}",
        pid.trim()
    );
    LabError::new(LabErrorKind::Unavailable, tried)
        .hint("wait for it to end, or end it; then run again")
}

fn read_all(settings: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, LabError> {
    let read = |name: &String| {
        let value = sysctl::read(name).tried(|| format!("cannot read {name}"))?;
        Ok((name.clone(), value))
    };
    settings.keys().map(read).collect()
}

/// Writes one `name=value` per line; the file appears only when it is complete.
fn write_state(path: &Path, values: &BTreeMap<String, String>) -> io::Result<()> {
    let lines: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, lines.concat())?;
    fs::rename(unfinished, path)
}

/// Restores the values that a killed guard left in its state file, if there is one.
fn restore_from(path: &Path) -> io::Result<()> {
    let mut text = String::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(file) => file.take(STATE_BYTES_MAX).read_to_string(&mut text)?,
    };
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        // The file is owned by root, but only sysctls that a lab may set are restored.
        if name.starts_with("net.") && !name.contains("..") {
            sysctl::write(name, value)?;
        }
    }
    fs::remove_file(path)
}

fn start(lock: &File, state: &Path, before: &BTreeMap<String, String>) -> io::Result<Guard> {
    let (until, alive) = process::pipe()?;
    match process::fork()? {
        Fork::Child => {
            drop(alive);
            let code = guard(&until, lock, state, before);
            process::exit_now(code)
        }
        Fork::Parent { child } => Ok(Guard {
            alive: Some(alive),
            process: process::watch(child)?,
            pid: child,
        }),
    }
}

/// Runs the guard process: waits for the lab to end, restores, and releases the lock by ending.
fn guard(until: &OwnedFd, _lock: &File, state: &Path, before: &BTreeMap<String, String>) -> i32 {
    // Neither a terminal nor a catchable signal may end it early.
    let _ = process::new_session();
    let _ = signal::block();
    let quiet = File::options().read(true).write(true).open("/dev/null");
    let _ = quiet.and_then(process::redirect_standard);
    while !matches!(poll::read(until, &mut [0]), Ok(0)) {}
    let mut code = 0;
    for (name, value) in before {
        if sysctl::write(name, value).is_err() {
            code = 1;
        }
    }
    if code == 0 {
        // After a failure the file stays, so that the next lab tries again.
        let _ = fs::remove_file(state);
    }
    code
}
