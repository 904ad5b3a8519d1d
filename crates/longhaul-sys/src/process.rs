//! Processes: making them in namespaces, waiting for them, outliving them.

use crate::netns::{self, Kind};
use crate::signal;
use crate::syscall::{descriptor, status};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

/// Where and how a command starts.
#[derive(Debug)]
pub struct Start<'a> {
    /// What the command finds as the name of its host.
    pub host_name: &'a str,
    pub net: BorrowedFd<'a>,
    /// With its mounts, where the machine permitted them.
    pub mount: Option<BorrowedFd<'a>>,
    /// The working folder, by its path: a mount namespace starts in its own root.
    pub folder: &'a Path,
    /// In a session of its own, so that the terminal's signals do not reach it.
    pub own_session: bool,
}

/// Starts `command` there. It dies when the calling thread does, and gets its signals back.
pub fn spawn(command: &mut Command, start: &Start<'_>) -> io::Result<Child> {
    let net = start.net.try_clone_to_owned()?;
    let mount = start.mount.map(|fd| fd.try_clone_to_owned()).transpose()?;
    let folder = CString::new(start.folder.as_os_str().as_bytes())?;
    let own_session = start.own_session;
    let host_name = start.host_name.as_bytes().to_vec();
    let prepare = move || {
        // Without the right to it the command runs under the machine's name.
        let _ = netns::name_host(&host_name);
        netns::enter(&net, Kind::Net)?;
        if let Some(mount) = &mount {
            netns::enter(mount, Kind::Mount)?;
        }
        // SAFETY: the path is a terminated string.
        status(unsafe { libc::chdir(folder.as_ptr()) })?;
        if own_session {
            // SAFETY: setsid touches no memory.
            status(unsafe { libc::setsid() })?;
        }
        die_with_parent()?;
        signal::unblock()
    };
    // SAFETY: between fork and exec only system calls are made; all memory was made before.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// The calling process is killed when the thread that made it ends.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG reads one integer.
    status(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

/// Orphans among the calling process's descendants become its children, not init's.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER reads one integer.
    status(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })
}

/// A descriptor that becomes readable when the process ends.
pub fn watch(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open touches no memory.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    descriptor(answer as i32)
}

/// Takes the exit of any one child that has ended; false when there is none to take.
///
/// # Errors
/// `NotFound` (ECHILD) when there are no children at all.
pub fn reap_one() -> io::Result<bool> {
    // SAFETY: a null status pointer is allowed.
    let answer = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    match status(answer) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
            Err(io::Error::from(io::ErrorKind::NotFound))
        }
        Err(error) => Err(error),
        Ok(()) => Ok(answer > 0),
    }
}

/// Takes the exit of one child, which has ended; false when it has not.
pub fn reap(pid: u32) -> io::Result<bool> {
    let pid = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: a null status pointer is allowed.
    let answer = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    status(answer).map(|()| answer > 0)
}

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    Parent { child: u32 },
    Child,
}

/// Forks.
///
/// # Errors
/// `InvalidInput` in a process of more than one thread, whose child could not safely run on.
pub fn fork() -> io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only a process of one thread can fork",
        ));
    }
    // SAFETY: the process has one thread, so the child is a whole copy of it.
    let answer = unsafe { libc::fork() };
    status(answer)?;
    Ok(match u32::try_from(answer) {
        Ok(child) if child > 0 => Fork::Parent { child },
        _ => Fork::Child,
    })
}

/// Makes the calling process the leader of a new session without a terminal.
pub fn new_session() -> io::Result<()> {
    // SAFETY: setsid touches no memory.
    status(unsafe { libc::setsid() })
}

/// Points standard input, output and error of the process at `file`.
pub fn redirect_standard(file: impl AsFd) -> io::Result<()> {
    for standard in 0..3 {
        // SAFETY: both are descriptors of this process; the standard ones stay open throughout.
        status(unsafe { libc::dup2(file.as_fd().as_raw_fd(), standard) })?;
    }
    Ok(())
}

/// Both ends of a pipe: what is written to the second is read from the first.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    status(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the kernel has just made both for us.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// The effective user and group.
pub fn effective_ids() -> (u32, u32) {
    // SAFETY: these calls touch no memory and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Fills `bytes` from the kernel's random source.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: the buffer is ours and its length is passed with it.
    let answer = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(answer) {
        Ok(count) if count == bytes.len() => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process at once: no destructors, no flushing of what a fork has copied.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit does not return.
    unsafe { libc::_exit(code) }
}
