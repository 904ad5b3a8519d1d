//! What a system call answered, as a [`std::io::Result`].

use std::io;

/// `Ok` unless the call answered below zero; then the thread's errno.
pub(crate) fn status(answer: i32) -> io::Result<()> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
