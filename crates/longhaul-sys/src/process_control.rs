//! Processes: start in namespaces, wait, supervise.

use crate::netns::{self, NamespaceKind};
use crate::signal;
use crate::syscall::check_descriptor;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{chdir, getegid, geteuid, setsid};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

/// Namespaces and options of a new process.
#[derive(Debug)]
pub struct SpawnOptions<'a> {
    /// Host name that the command sees.
    pub host_name: &'a str,
    pub net: BorrowedFd<'a>,
    /// Mount namespace, if the machine permits one.
    pub mount: Option<BorrowedFd<'a>>,
    /// Working directory, by its path: a mount namespace starts in its own root.
    pub folder: &'a Path,
    /// Starts a new session, so that the terminal's signals do not reach it.
    pub own_session: bool,
}

/// Starts `command` there, with unblocked signals. It is killed when the calling thread ends.
pub fn spawn_in_namespaces(command: &mut Command, start: &SpawnOptions<'_>) -> io::Result<Child> {
    let net = start.net.try_clone_to_owned()?;
    let mount = start.mount.map(|fd| fd.try_clone_to_owned()).transpose()?;
    let folder = CString::new(start.folder.as_os_str().as_bytes())?;
    let own_session = start.own_session;
    let host_name = start.host_name.to_owned();
    let prepare = move || {
        // Without the privilege, the command sees the machine's name.
        let _ = netns::set_private_host_name(&host_name);
        netns::enter_namespace(&net, NamespaceKind::Net)?;
        if let Some(mount) = &mount {
            netns::enter_namespace(mount, NamespaceKind::Mount)?;
        }
        chdir(folder.as_c_str())?;
        if own_session {
            setsid()?;
        }
        die_with_parent()?;
        signal::unblock_signals()
    };
    // SAFETY: between fork and exec only system calls are made; all memory was made before.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Kills the calling process when the thread that created it ends.
pub fn die_with_parent() -> io::Result<()> {
    Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
}

/// Makes orphaned descendants children of the calling process, instead of init.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// Returns a descriptor that becomes readable when the process ends.
pub fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open touches no memory.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    check_descriptor(answer as i32)
}

/// Reaps any one child that has ended; returns false if there is none that has.
///
/// # Errors
/// ECHILD if there are no children at all.
pub fn reap_one() -> io::Result<bool> {
    let status = waitpid(None, Some(WaitPidFlag::WNOHANG))?;
    Ok(status != WaitStatus::StillAlive)
}

/// Returns the effective user and group.
pub fn effective_ids() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// Fills `bytes` from the kernel's random source.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    File::open("/dev/urandom")?.read_exact(bytes)
}
