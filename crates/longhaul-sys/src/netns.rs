//! Namespaces, held as descriptors: nothing is named, so nothing is left behind by a crash.
//!
//! A network or mount namespace belongs to a thread. [`unshare`] moves the calling thread only
//! (the user namespace needs a process of one thread); [`enter`] moves it into a held one.

use crate::syscall::status;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    User,
    Net,
    Mount,
}

impl Kind {
    fn flag(self) -> i32 {
        match self {
            Kind::User => libc::CLONE_NEWUSER,
            Kind::Net => libc::CLONE_NEWNET,
            Kind::Mount => libc::CLONE_NEWNS,
        }
    }

    /// The file below `/proc/…/ns`.
    pub fn file(self) -> &'static str {
        match self {
            Kind::User => "user",
            Kind::Net => "net",
            Kind::Mount => "mnt",
        }
    }
}

/// Gives the calling thread a new namespace of this kind.
///
/// # Errors
/// `PermissionDenied` without `CAP_SYS_ADMIN` (a user namespace needs none, where the kernel and
/// its security modules permit it); `InvalidInput` for a user namespace in a process of more than
/// one thread.
pub fn unshare(kind: Kind) -> io::Result<()> {
    // SAFETY: unshare reads its flags and touches no memory of ours.
    status(unsafe { libc::unshare(kind.flag()) })
}

/// Moves the calling thread into a held namespace.
pub fn enter(namespace: impl AsFd, kind: Kind) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call.
    status(unsafe { libc::setns(namespace.as_fd().as_raw_fd(), kind.flag()) })
}

/// The namespace of the calling thread, as a descriptor that keeps it alive.
pub fn own(kind: Kind) -> io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/thread-self/ns/{}", kind.file()))?.into())
}

/// A number that the thread's network namespace has, and no other of this boot (SO_NETNS_COOKIE,
/// Linux 5.14).
pub fn net_cookie() -> io::Result<u64> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .or_else(|_| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))?;
    crate::sockopt::net_cookie(&socket)
}

/// Gives the calling process a host name of its own, which only it and its children see.
pub fn name_host(name: &[u8]) -> io::Result<()> {
    // SAFETY: unshare reads its flags and touches no memory of ours.
    status(unsafe { libc::unshare(libc::CLONE_NEWUTS) })?;
    // SAFETY: the name is valid for its length.
    status(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
}
