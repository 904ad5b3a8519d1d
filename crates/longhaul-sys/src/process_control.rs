//! Processes: start in namespaces, wait, supervise.

use crate::netns::{self, NamespaceKind};
use crate::signal;
use crate::syscall::{check_descriptor, check_status};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
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
    let host_name = start.host_name.as_bytes().to_vec();
    let prepare = move || {
        // Without the privilege, the command sees the machine's name.
        let _ = netns::set_private_host_name(&host_name);
        netns::enter_namespace(&net, NamespaceKind::Net)?;
        if let Some(mount) = &mount {
            netns::enter_namespace(mount, NamespaceKind::Mount)?;
        }
        // SAFETY: the path is a terminated string.
        check_status(unsafe { libc::chdir(folder.as_ptr()) })?;
        if own_session {
            // SAFETY: setsid touches no memory.
            check_status(unsafe { libc::setsid() })?;
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
    // SAFETY: PR_SET_PDEATHSIG reads one integer.
    check_status(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

/// Makes orphaned descendants children of the calling process, instead of init.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER reads one integer.
    check_status(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })
}

/// Returns a descriptor that becomes readable when the process ends.
pub fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open touches no memory.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    check_descriptor(answer as i32)
}

/// Reaps any one child that has ended; returns false if there is none.
///
/// # Errors
/// `NotFound` (ECHILD) if there are no children at all.
pub fn reap_one() -> io::Result<bool> {
    // SAFETY: a null status pointer is allowed.
    let answer = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    match check_status(answer) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
            Err(io::Error::from(io::ErrorKind::NotFound))
        }
        Err(error) => Err(error),
        Ok(()) => Ok(answer > 0),
    }
}

/// Reaps one child; returns false if it has not ended.
pub fn reap_child(pid: u32) -> io::Result<bool> {
    let pid = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: a null status pointer is allowed.
    let answer = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    check_status(answer).map(|()| answer > 0)
}

/// The side of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkSide {
    Parent { child: u32 },
    Child,
}

/// Forks the process.
///
/// # Errors
/// `InvalidInput` in a multi-threaded process, whose child could not continue safely.
pub fn fork_process() -> io::Result<ForkSide> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only a single-threaded process can fork",
        ));
    }
    // SAFETY: the process has one thread, so the child is a whole copy of it.
    let answer = unsafe { libc::fork() };
    check_status(answer)?;
    Ok(match u32::try_from(answer) {
        Ok(child) if child > 0 => ForkSide::Parent { child },
        _ => ForkSide::Child,
    })
}

/// Makes the calling process the leader of a new session without a terminal.
pub fn new_session() -> io::Result<()> {
    // SAFETY: setsid touches no memory.
    check_status(unsafe { libc::setsid() })
}

/// Redirects standard input, output and error of the process to `file`.
pub fn redirect_standard(file: impl AsFd) -> io::Result<()> {
    for standard in 0..3 {
        // SAFETY: both are descriptors of this process; the standard ones stay open throughout.
        check_status(unsafe { libc::dup2(file.as_fd().as_raw_fd(), standard) })?;
    }
    Ok(())
}

/// Creates a pipe: data written to the second end is read from the first.
pub fn create_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    check_status(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the kernel has just made both for us.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Returns the effective user and group.
pub fn effective_ids() -> (u32, u32) {
    // SAFETY: these calls touch no memory and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Fills `bytes` from the kernel's random source.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: the buffer is ours and its length is passed with it.
    let answer = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(answer) {
        Ok(count) if count == bytes.len() => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process at once, without destructors or flushing of forked buffers.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit does not return.
    unsafe { libc::_exit(code) }
}
