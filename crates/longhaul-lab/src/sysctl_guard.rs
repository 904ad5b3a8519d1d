//! Sets machine-wide sysctls while a lab runs, under a lock, and always restores them.
//!
//! A guard, a shell, reads a pipe; only the lab has its other end. When the lab ends, however it
//! ends, the pipe closes and the guard restores the values. If the guard is killed too, its state
//! file remains, and the next guard of that name restores from it first.

use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::lab_runtime::{self, write_whole_file};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "/run/longhaul-lab";
const LOCK_DEADLINE: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Waits for the end of standard input, which no catchable signal cuts short, and then restores the
/// values of the state file: `FILE=VALUE` in each line. After a failure the file stays, so that the
/// next lab tries again.
const RESTORE: &str = "\
    trap '' HUP INT QUIT TERM
    read -r _
    while IFS== read -r file value; do printf %s \"$value\" >\"$file\" || failed=1; done <\"$0\"
    [ -z \"$failed\" ] && rm -- \"$0\"";

/// The set of settings that is guarded for the whole run. Each set has its own lock.
pub(crate) const MACHINE: &str = "machine";
/// The congestion controls that a namespace may use, guarded only while the hosts are created.
pub(crate) const CONGESTION_CONTROL: &str = "congestion-control";

/// A guard of changed settings; dropping it restores them.
#[derive(Debug)]
pub(crate) struct SysctlGuard(Child);

impl SysctlGuard {
    /// Sets `settings` as soon as no other lab holds the lock.
    pub(crate) fn acquire(
        guarded: &str,
        settings: &BTreeMap<String, String>,
    ) -> Result<SysctlGuard, LabError> {
        let lock = lock_settings(guarded)?;
        let state = Path::new(FOLDER).join(format!("{guarded}.state"));
        restore_leftover(&state).with_context("cannot restore the sysctls of an earlier lab")?;
        write_whole_file(&state, &format_state(settings)?)
            .with_context(format!("cannot write {}", state.display()))?;
        // The guard holds the lock until it ends: it is its standard output.
        let guard = restorer(&state).stdin(Stdio::piped()).stdout(lock).spawn();
        let guard =
            guard.map(SysctlGuard).with_context("cannot start the shell that restores sysctls")?;
        for (name, value) in settings {
            // On an error the guard is dropped, which restores what was set so far.
            lab_runtime::write_sysctl(name, value)
                .with_context(format!("cannot set {name} = {value}"))?;
        }
        Ok(guard)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for SysctlGuard {
    fn drop(&mut self) {
        // Closes the pipe and waits. A failure leaves the state file to the next lab.
        let _ = self.0.wait();
    }
}

/// Returns the command that restores from a state file, out of reach of the terminal's signals.
fn restorer(state: &Path) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", RESTORE]).arg(state).process_group(0);
    shell.stdin(Stdio::null()).stderr(Stdio::null());
    shell
}

/// Restores the values that a killed guard left in its state file, if there is one.
fn restore_leftover(state: &Path) -> io::Result<()> {
    if state.exists() && !restorer(state).status()?.success() {
        return Err(io::Error::other(format!("{} has the values", state.display())));
    }
    Ok(())
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

/// Returns the current values of the settings as a state file.
fn format_state(settings: &BTreeMap<String, String>) -> Result<String, LabError> {
    let line = |name: &String| {
        let value = lab_runtime::read_sysctl(name).with_context(format!("cannot read {name}"))?;
        Ok(format!("{}={value}\n", lab_runtime::sysctl_path(name).display()))
    };
    settings.keys().map(line).collect()
}
