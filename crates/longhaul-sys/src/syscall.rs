//! Conversion of system call results to [`std::io::Result`].

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Returns the thread's errno if the result is negative.
pub(crate) fn check_status(answer: i32) -> io::Result<()> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the result as a new descriptor, or the thread's errno.
pub(crate) fn check_descriptor(answer: i32) -> io::Result<OwnedFd> {
    check_status(answer)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(answer) })
}

/// Space for control messages, aligned for the kernel.
#[repr(C, align(8))]
pub(crate) struct ControlSpace<const N: usize>(pub [u8; N]);
