//! Zero-copy sending: vmsplice into a pipe, splice from there to the socket.
//!
//! The payload's pages must not change while data is in flight, so shared payload regions are never
//! written.
//!
//! Source: vmsplice(2), splice(2), fcntl(2) on F_SETPIPE_SZ. An unprivileged user has 64 MiB of
//! pipe pages (`fs.pipe-user-pages-soft`); pipes beyond that get two pages.

use crate::memory_region::{GatherVector, page_bytes};
use crate::tcp_transfer::retry_interrupted;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice};
use std::io;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd};

/// A pipe that carries references to payload pages to a socket.
#[derive(Debug)]
pub struct SplicePipe {
    read: PipeReader,
    write: PipeWriter,
    capacity_bytes: usize,
}

impl SplicePipe {
    /// Creates a pipe of `ask_bytes`, or of the half, quarter and so on that the kernel permits,
    /// but at least 64 KiB.
    ///
    /// # Errors
    /// No free descriptors, or the user's pipe pages are used up.
    pub fn new(ask_bytes: usize) -> io::Result<SplicePipe> {
        const LEAST_BYTES: usize = 64 << 10;
        let (read, write) = io::pipe()?;
        let mut ask = ask_bytes;
        loop {
            match set_capacity(&write, ask) {
                Ok(capacity_bytes) => return Ok(SplicePipe { read, write, capacity_bytes }),
                Err(error) if ask <= LEAST_BYTES => return Err(error),
                Err(_) => ask /= 2,
            }
        }
    }

    /// Returns the capacity with fully used pages.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Puts up to `bytes` of the repeated payload into the pipe, by reference.
    pub fn fill(
        &self,
        payload: &mut GatherVector,
        position: u64,
        bytes: usize,
    ) -> io::Result<usize> {
        let (pieces, count) = payload.vectors_for(position, bytes);
        let fd = self.write.as_raw_fd();
        // SAFETY: the pieces are inside the payload, which outlives them and does not change.
        retry_interrupted(|| unsafe { libc::vmsplice(fd, pieces, count, 0) })
    }

    /// Moves up to `bytes` from the pipe to the socket; `more` indicates that more data follows at
    /// once.
    ///
    /// # Errors
    /// `WouldBlock` if nothing was moved before the socket's send timeout.
    pub fn drain(&self, socket: impl AsFd, bytes: usize, more: bool) -> io::Result<usize> {
        let mut flags = SpliceFFlags::SPLICE_F_MOVE;
        flags.set(SpliceFFlags::SPLICE_F_MORE, more);
        loop {
            match splice(&self.read, None, &socket, None, bytes, flags) {
                Err(Errno::EINTR) => {}
                moved => return Ok(moved?),
            }
        }
    }
}

fn set_capacity(pipe: &PipeWriter, bytes: usize) -> io::Result<usize> {
    let ask = bytes.max(page_bytes()) as i32;
    Ok(fcntl(pipe, FcntlArg::F_SETPIPE_SZ(ask))?.unsigned_abs() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_larger_than_the_system_allows_becomes_a_smaller_one() {
        let pipe = SplicePipe::new(1 << 30).expect("some pipe");
        assert!(pipe.capacity_bytes() >= 64 << 10);
    }
}
