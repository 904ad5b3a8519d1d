//! Sets machine-wide sysctls while a lab runs, under a lock, and always restores them.
//!
//! A guard, a shell, reads a pipe; only the lab has its other end. When the lab ends, however it
//! ends, the pipe closes and the guard restores the values. If only the guard is killed, the lab
//! restores them. If both are killed, the state file remains: [`find_stale_sysctls`] reports it, and
//! [`restore_stale_sysctls`] or the next guard of that name restores from it.

use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::lab_runtime::{self, write_whole_file};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "/run/longhaul-lab";
const LOCK_DEADLINE: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Waits for the end of standard input, which no catchable signal cuts short, and then restores the
/// values of the state file: `FILE=VALUE` in each line. There is none if the lab was killed before it
/// set anything. After a failure the file stays, so that the next lab tries again.
const RESTORE: &str = "\
    trap '' HUP INT QUIT TERM
    read -r _
    [ -e \"$0\" ] || exit 0
    while IFS== read -r file value; do printf %s \"$value\" >\"$file\" || failed=1; done <\"$0\"
    [ -z \"$failed\" ] && rm -- \"$0\"";

/// The set of settings that is guarded for the whole run. Each set has its own lock.
pub(crate) const MACHINE: &str = "machine";
/// The congestion controls that a namespace may use, guarded only while the hosts are created.
pub(crate) const CONGESTION_CONTROL: &str = "congestion-control";

const GUARDED_SETS: [&str; 2] = [MACHINE, CONGESTION_CONTROL];

/// A guard of changed settings; dropping it restores them.
#[derive(Debug)]
pub(crate) struct SysctlGuard {
    shell: Child,
    state: PathBuf,
    /// The shell has it too, as its standard output: it is held until both have ended.
    _lock: File,
}

impl SysctlGuard {
    /// Sets `settings` as soon as no other lab holds the lock.
    pub(crate) fn acquire(
        guarded: &str,
        settings: &BTreeMap<String, String>,
    ) -> Result<SysctlGuard, LabError> {
        let lock = lock_settings(guarded)?;
        let state = state_path(guarded);
        restore_leftover(&state).with_context("cannot restore the sysctls of an earlier lab")?;
        let values = format_state(settings)?;
        let start = || {
            let output = lock.try_clone()?;
            restorer(&state).stdin(Stdio::piped()).stdout(output).spawn()
        };
        let shell = start().with_context("cannot start the shell that restores sysctls")?;
        // Written after the start of the shell: a lab killed in between leaves no file.
        write_whole_file(&state, &values)
            .with_context(format!("cannot write {}", state.display()))?;
        let guard = SysctlGuard { shell, state, _lock: lock };
        for (name, value) in settings {
            // On an error the guard is dropped, which restores what was set so far.
            lab_runtime::write_sysctl(name, value)
                .with_context(format!("cannot set {name} = {value}"))?;
        }
        Ok(guard)
    }
}

impl Drop for SysctlGuard {
    fn drop(&mut self) {
        // Closes the pipe and waits.
        let restored = self.shell.wait().is_ok_and(|status| status.success());
        if !restored {
            // A failure leaves the state file, which the next command reports.
            let _ = restore_leftover(&self.state);
        }
    }
}

/// Machine-wide sysctls that a killed lab has changed and nobody has restored.
#[derive(Debug)]
pub struct StaleSysctls {
    guarded: &'static str,
    /// The names and the values from before the lab.
    pub originals: Vec<(String, String)>,
}

/// Returns what killed labs have left. A lab that runs is not reported.
pub fn find_stale_sysctls() -> Vec<StaleSysctls> {
    let stale = |guarded| {
        let state = fs::read_to_string(state_path(guarded)).ok()?;
        let lock = File::open(lock_path(guarded)).ok()?;
        // The lab or its guard holds it.
        lock.try_lock_shared().ok()?;
        Some(StaleSysctls { guarded, originals: parse_state(&state) })
    };
    GUARDED_SETS.into_iter().filter_map(stale).collect()
}

/// Restores the sysctls that killed labs have left.
///
/// # Errors
/// This process is not root, another lab has the lock, or the kernel refuses a value.
pub fn restore_stale_sysctls(stale: &[StaleSysctls]) -> Result<(), LabError> {
    for each in stale {
        let _lock = lock_settings(each.guarded).map_err(|error| error.hint("run it as root"))?;
        restore_leftover(&state_path(each.guarded)).with_context("cannot restore the sysctls")?;
    }
    Ok(())
}

fn state_path(guarded: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{guarded}.state"))
}

fn lock_path(guarded: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{guarded}.lock"))
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
    let path = lock_path(guarded);
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

/// Reads a state file; lines of another form are left out.
fn parse_state(state: &str) -> Vec<(String, String)> {
    let setting = |line: &str| {
        let (path, value) = line.split_once('=')?;
        let name = path.strip_prefix("/proc/sys/")?.replace('/', ".");
        Some((name, value.to_owned()))
    };
    state.lines().filter_map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_file_is_read_back() {
        let settings = BTreeMap::from([("net.core.rmem_max".to_owned(), "1".to_owned())]);
        let state = format_state(&settings).expect("a readable setting");
        let now = lab_runtime::read_sysctl("net.core.rmem_max").expect("a readable setting");
        assert_eq!(parse_state(&state), [("net.core.rmem_max".to_owned(), now)]);
        assert!(parse_state("rm -rf /\n").is_empty());
    }
}
