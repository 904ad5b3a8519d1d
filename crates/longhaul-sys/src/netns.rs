//! Namespaces, held as unnamed descriptors, so that a crash leaves nothing behind.
//!
//! Network and mount namespaces belong to threads. [`unshare_namespace`] affects only the calling thread (a
//! user namespace requires a single-threaded process); [`enter_namespace`] moves it into an existing one.

use crate::host::network_interface::open_any_socket;
use crate::sockopt::get_option;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceKind {
    User,
    Net,
    Mount,
    /// That of the children of the calling thread; the thread itself never changes its own.
    Pid,
}

impl NamespaceKind {
    fn clone_flag(self) -> CloneFlags {
        match self {
            NamespaceKind::User => CloneFlags::CLONE_NEWUSER,
            NamespaceKind::Net => CloneFlags::CLONE_NEWNET,
            NamespaceKind::Mount => CloneFlags::CLONE_NEWNS,
            NamespaceKind::Pid => CloneFlags::CLONE_NEWPID,
        }
    }

    /// Returns the file name below `/proc/…/ns`.
    pub fn file_name(self) -> &'static str {
        match self {
            NamespaceKind::User => "user",
            NamespaceKind::Net => "net",
            NamespaceKind::Mount => "mnt",
            NamespaceKind::Pid => "pid",
        }
    }
}

/// Moves the calling thread into a new namespace of this kind.
///
/// # Errors
/// `PermissionDenied` without `CAP_SYS_ADMIN` (not needed for a user namespace, if the kernel and
/// its security modules permit it); `InvalidInput` for a user namespace in a multi-threaded
/// process.
pub fn unshare_namespace(kind: NamespaceKind) -> io::Result<()> {
    Ok(unshare(kind.clone_flag())?)
}

/// Moves the calling thread into an open namespace.
pub fn enter_namespace(namespace: impl AsFd, kind: NamespaceKind) -> io::Result<()> {
    Ok(setns(namespace, kind.clone_flag())?)
}

/// Opens the calling thread's namespace; the descriptor keeps it alive.
pub fn open_own_namespace(kind: NamespaceKind) -> io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/thread-self/ns/{}", kind.file_name()))?.into())
}

/// Returns a number that identifies the thread's network namespace until reboot (SO_NETNS_COOKIE,
/// Linux 5.14).
pub fn net_cookie() -> io::Result<u64> {
    let socket = open_any_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    get_option(&socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE)
}

/// Sets a host name that only the calling process and its children see.
pub fn set_private_host_name(name: impl AsRef<OsStr>) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWUTS)?;
    Ok(sethostname(name)?)
}
