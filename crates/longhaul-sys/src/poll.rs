//! Waiting for descriptors with a nanosecond timeout, and simple reads and writes.

use crate::syscall::{check_count, check_descriptor, check_status};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Waits until one of `descriptors` is readable or the timeout expires. Returns which are readable
/// (or broken, which a read will report). `None` waits without limit. A signal ends the wait early.
pub fn wait_readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = descriptors.map(|each| libc::pollfd {
        fd: each.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let time = timeout.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mask = std::ptr::null();
    // SAFETY: `polled` and `time` live for the call; a null mask leaves the signals alone.
    let answer = unsafe { libc::ppoll(polled.as_mut_ptr(), N as libc::nfds_t, time, mask) };
    match check_status(answer) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(error) => Err(error),
        Ok(()) => Ok(polled.map(|each| each.revents != 0)),
    }
}

/// Reads once.
pub fn read_descriptor(from: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let raw = from.as_fd().as_raw_fd();
    // SAFETY: the buffer is ours and its length is passed with it.
    check_count(unsafe { libc::read(raw, into.as_mut_ptr().cast(), into.len()) })
}

/// Writes all parts as a single packet.
pub fn write_packet(to: impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let raw = to.as_fd().as_raw_fd();
    let parts_count = libc::c_int::try_from(parts.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: IoSlice has the layout of iovec, and all parts outlive the call.
    check_count(unsafe { libc::writev(raw, parts.as_ptr().cast(), parts_count) })
}

/// Creates a descriptor with which one thread wakes another.
pub fn wake_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: eventfd touches no memory of ours.
    check_descriptor(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
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
