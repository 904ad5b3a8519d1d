//! Processes: start in namespaces, wait, supervise.

use crate::netns::{self, NamespaceKind};
use crate::syscall::{check_descriptor, check_status};
use crate::{mount, poll, signal};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, kill, signal as handle_signal};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, chdir, getegid, geteuid, pause, setsid};
use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// Namespaces and options of a new process.
#[derive(Debug)]
pub struct SpawnOptions<'a> {
    /// Host name that the command sees.
    pub host_name: &'a str,
    pub net: BorrowedFd<'a>,
    /// Mount namespace, if the machine permits one.
    pub mount: Option<BorrowedFd<'a>>,
    pub pid_namespace: Option<&'a PidNamespace>,
    /// Working directory, by its path: a mount namespace starts in its own root.
    pub folder: &'a Path,
    /// Starts a new session, so that the terminal's signals do not reach it.
    pub own_session: bool,
}

/// Starts `command` there, with unblocked signals. It is killed when its PID namespace ends, or, if
/// it has none of its own, the calling thread. With a PID namespace and a mount namespace it gets a
/// `/proc` of its PID namespace, if the machine permits that.
pub fn spawn_in_namespaces(command: &mut Command, start: &SpawnOptions<'_>) -> io::Result<Child> {
    let net = start.net.try_clone_to_owned()?;
    let mount = start.mount.map(|fd| fd.try_clone_to_owned()).transpose()?;
    let folder = CString::new(start.folder.as_os_str().as_bytes())?;
    let own_session = start.own_session;
    let has_pid_namespace = start.pid_namespace.is_some();
    let host_name = start.host_name.to_owned();
    let prepare = move || {
        // Without the privilege, the command sees the machine's name.
        let _ = netns::set_private_host_name(&host_name);
        netns::enter_namespace(&net, NamespaceKind::Net)?;
        if let Some(mount) = &mount {
            netns::enter_namespace(mount, NamespaceKind::Mount)?;
            if has_pid_namespace {
                // Refused in containers that hide parts of /proc.
                let _ = mount::mount_procfs();
            }
        }
        chdir(folder.as_c_str())?;
        if own_session {
            setsid()?;
        }
        // In a PID namespace the command ends with that, not with the thread that starts it.
        if !has_pid_namespace {
            die_with_parent()?;
        }
        signal::unblock_signals()
    };
    // SAFETY: between fork and exec only system calls are made; all memory was made before.
    unsafe { command.pre_exec(prepare) };
    let Some(inner) = start.pid_namespace else {
        return command.spawn();
    };
    // A thread that has entered the namespace cannot start threads, nor leave it without root.
    let spawn_inside = || {
        netns::enter_namespace(&inner.namespace, NamespaceKind::Pid)?;
        command.spawn()
    };
    std::thread::scope(|scope| {
        let spawned = std::thread::Builder::new().spawn_scoped(scope, spawn_inside)?;
        spawned.join().map_err(|_| io::Error::other("the thread that starts a command panicked"))?
    })
}

/// A PID namespace, and its first process, with which the kernel kills all others in it.
#[derive(Debug)]
pub struct PidNamespace {
    namespace: OwnedFd,
    init: Pid,
}

impl PidNamespace {
    /// Creates a namespace that ends with the calling thread. The process must have only one thread.
    pub fn create() -> io::Result<PidNamespace> {
        let parent = open_pidfd(std::process::id())?;
        let (flags, none) = (libc::CLONE_NEWPID | libc::SIGCHLD, 0_usize);
        // SAFETY: as fork; there is only one thread, and the child makes only system calls.
        let cloned = unsafe {
            libc::syscall(libc::SYS_clone, flags as libc::c_ulong, none, none, none, none)
        };
        if cloned == 0 {
            let Err(_) = serve_as_init(&parent);
            // SAFETY: the child ends without running anything of its parent's.
            unsafe { libc::_exit(1) }
        }
        check_status(cloned as i32)?;
        let init = Pid::from_raw(cloned as i32);
        let namespace = File::open(format!("/proc/{init}/ns/pid"))?.into();
        Ok(PidNamespace { namespace, init })
    }
}

impl Drop for PidNamespace {
    /// Kills all processes of the namespace and waits for their end. Children of this process among
    /// them must have been waited for.
    fn drop(&mut self) {
        let _ = kill(self.init, Signal::SIGKILL);
        let _ = waitpid(self.init, None);
    }
}

/// Waits to be killed, as the first process of a PID namespace. The kernel reaps its children.
fn serve_as_init(parent: &OwnedFd) -> io::Result<Infallible> {
    die_with_parent()?;
    // The parent may have ended before that call.
    let [has_ended] = poll::wait_readable([parent.as_fd()], Some(Duration::ZERO))?;
    if has_ended {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    // Out of reach of the signals that a terminal or a shell sends to the process group.
    setsid()?;
    // SAFETY: an ignored signal runs no handler.
    unsafe { handle_signal(Signal::SIGCHLD, SigHandler::SigIgn) }?;
    // Kernels before 5.9 lack it; then the parent's descriptors stay open as long as this process.
    // By its number, because glibc has had this function since 2.34, and packages start on 2.28.
    // SAFETY: close_range touches no memory, and no descriptor is used after it.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) };
    loop {
        pause();
    }
}

/// Kills the calling process when the thread that created it ends.
pub fn die_with_parent() -> io::Result<()> {
    Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
}

/// Returns a descriptor that becomes readable when the process ends.
pub fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open touches no memory.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    check_descriptor(answer as i32)
}

/// Returns the effective user and group.
pub fn effective_ids() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// Fills `bytes` from the kernel's random source.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    File::open("/dev/urandom")?.read_exact(bytes)
}
