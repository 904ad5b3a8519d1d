//! Sets machine-wide sysctls while a lab runs, under a lock, and always restores them.
//!
//! A guard process holds the read end of a pipe; only the lab has the write end. When the lab ends,
//! however it ends, the pipe closes and the guard restores the values. If the guard is killed too,
//! its state file remains, and the next guard of that name restores from it first.

use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::lab_runtime::{namespace_sysctl, write_whole_file};
use longhaul_sys::process_control::{self, ForkSide};
use longhaul_sys::{poll, signal};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

const FOLDER: &str = "/run/longhaul-lab";
const LOCK_DEADLINE: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const RESTORE_DEADLINE: Duration = Duration::from_secs(5);
const STATE_BYTES_MAX: u64 = 1 << 16;

/// The set of settings that is guarded for the whole run. Each set has its own lock.
pub(crate) const MACHINE: &str = "machine";
/// The congestion controls that a namespace may use, guarded only while the hosts are created.
pub(crate) const CONGESTION_CONTROL: &str = "congestion-control";

/// A guard of changed settings; dropping it restores them.
#[derive(Debug)]
pub(crate) struct SysctlGuard {
    /// Closing it tells the guard process to restore.
    alive: Option<io::PipeWriter>,
    process: OwnedFd,
    pub pid: u32,
}

impl SysctlGuard {
    /// Sets `settings` as soon as no other lab holds the lock. The process must have only one
    /// thread.
    pub(crate) fn acquire(
        guarded: &str,
        settings: &BTreeMap<String, String>,
    ) -> Result<SysctlGuard, LabError> {
        let lock = lock_settings(guarded)?;
        let state = Path::new(FOLDER).join(format!("{guarded}.state"));
        restore_state(&state).with_context("cannot restore the sysctls of an earlier lab")?;
        let before = read_settings(settings)?;
        // One `name=value` per line.
        let lines = before.iter().map(|(name, value)| format!("{name}={value}\n"));
        write_whole_file(&state, &lines.collect::<String>())
            .with_context(format!("cannot write {}", state.display()))?;
        let guard = start_guard(&lock, &state, &before)
            .with_context("cannot start the process that restores sysctls")?;
        for (name, value) in settings {
            // On an error the guard is dropped, which restores what was set so far.
            namespace_sysctl::write_sysctl(name, value)
                .with_context(format!("cannot set {name} = {value}"))?;
        }
        Ok(guard)
    }
}

impl Drop for SysctlGuard {
    fn drop(&mut self) {
        self.alive = None;
        // A slower guard still restores; the lab just does not wait for it.
        let _ = poll::wait_readable([self.process.as_fd()], Some(RESTORE_DEADLINE));
        let _ = process_control::reap_child(self.pid);
    }
}

fn lock_settings(guarded: &str) -> Result<File, LabError> {
    let path = Path::new(FOLDER).join(format!("{guarded}.lock"));
    let open = || {
        fs::create_dir_all(FOLDER)?;
        File::options().read(true).write(true).create(true).truncate(false).open(&path)
    };
    let mut file = open().with_context(format!("cannot open {}", path.display()))?;
    let deadline = Instant::now() + LOCK_DEADLINE;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => {
                return Err(LabError::from_io(format!("cannot lock {}", path.display()), error));
            }
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(lock_held_error(&mut file));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
    let note = || {
        file.set_len(0)?;
        (&file).write_all(std::process::id().to_string().as_bytes())
    };
    note().with_context(format!("cannot write {}", path.display()))?;
    Ok(file)
}

fn lock_held_error(file: &mut File) -> LabError {
    let mut pid = String::new();
    // The pid is only for the message.
    let _ = file.take(16).read_to_string(&mut pid);
    let tried = format!(
        "cannot lock the machine's sysctls: another lab run holds them, pid {}",
        pid.trim()
    );
    LabError::new(LabErrorKind::Unavailable, tried)
        .hint("wait for it to end, or stop it; then run this again")
}

fn read_settings(
    settings: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, LabError> {
    let read = |name: &String| {
        let value =
            namespace_sysctl::read_sysctl(name).with_context(format!("cannot read {name}"))?;
        Ok((name.clone(), value))
    };
    settings.keys().map(read).collect()
}

/// Restores the values that a killed guard left in its state file, if there is one.
fn restore_state(path: &Path) -> io::Result<()> {
    let mut text = String::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(file) => file.take(STATE_BYTES_MAX).read_to_string(&mut text)?,
    };
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        // The file is owned by root, but only sysctls that a lab may set are restored.
        if name.starts_with("net.") && !name.contains("..") {
            namespace_sysctl::write_sysctl(name, value)?;
        }
    }
    fs::remove_file(path)
}

fn start_guard(
    lock: &File,
    state: &Path,
    before: &BTreeMap<String, String>,
) -> io::Result<SysctlGuard> {
    let (until, alive) = std::io::pipe()?;
    match process_control::fork_process()? {
        ForkSide::Child => {
            drop(alive);
            let code = run_guard(&until, lock, state, before);
            process_control::exit_now(code)
        }
        ForkSide::Parent { child } => Ok(SysctlGuard {
            alive: Some(alive),
            process: process_control::open_pidfd(child)?,
            pid: child,
        }),
    }
}

/// Runs the guard process: waits for the lab to end, restores, and releases the lock by ending.
fn run_guard(
    until: &io::PipeReader,
    _lock: &File,
    state: &Path,
    before: &BTreeMap<String, String>,
) -> i32 {
    // Neither a terminal nor a catchable signal may end it early.
    let _ = process_control::new_session();
    let _ = signal::block_signals();
    let quiet = File::options().read(true).write(true).open("/dev/null");
    let _ = quiet.and_then(process_control::redirect_standard);
    while !matches!(poll::read_descriptor(until, &mut [0]), Ok(0)) {}
    let mut code = 0;
    for (name, value) in before {
        if namespace_sysctl::write_sysctl(name, value).is_err() {
            code = 1;
        }
    }
    if code == 0 {
        // After a failure the file stays, so that the next lab tries again.
        let _ = fs::remove_file(state);
    }
    code
}
