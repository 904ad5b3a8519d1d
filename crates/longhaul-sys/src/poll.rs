//! Waiting for descriptors with a nanosecond timeout, and simple reads and writes.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::uio::writev;
use nix::unistd::read;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Waits until one of `descriptors` is readable or the timeout expires. Returns which are readable
/// (or broken, which a read will report). `None` waits without limit. A signal ends the wait early.
pub fn wait_readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = descriptors.map(|each| PollFd::new(each, PollFlags::POLLIN));
    match ppoll(&mut polled, timeout.map(Into::into), None) {
        Err(Errno::EINTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(polled.map(|each| each.any() != Some(false))),
    }
}

/// Waits until one of `descriptors` is writable or broken, or the timeout expires. Returns which
/// are. A signal ends the wait early.
pub fn wait_writable(descriptors: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> =
        descriptors.iter().map(|each| PollFd::new(*each, PollFlags::POLLOUT)).collect();
    match ppoll(&mut polled, Some(timeout.into()), None) {
        Err(Errno::EINTR) => Ok(vec![false; descriptors.len()]),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(polled.iter().map(|each| each.any() != Some(false)).collect()),
    }
}

/// Reads once.
pub fn read_descriptor(from: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(read(from, into)?)
}

/// Writes all parts as a single packet.
pub fn write_packet(to: impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(writev(to, parts)?)
}

/// Creates a descriptor with which one thread wakes another.
pub fn wake_descriptor() -> io::Result<OwnedFd> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    Ok(EventFd::from_flags(flags)?.into())
}

/// Makes a wake descriptor readable.
pub fn signal_wake(descriptor: impl AsFd) -> io::Result<()> {
    write_packet(descriptor, &[IoSlice::new(&1_u64.to_ne_bytes())]).map(drop)
}

/// Makes a wake descriptor unreadable again.
pub fn clear_wake(descriptor: impl AsFd) {
    // An error only means that it was not readable.
    let _ = read_descriptor(descriptor, &mut [0; 8]);
}
