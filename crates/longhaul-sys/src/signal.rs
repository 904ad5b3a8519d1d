//! Signals as a descriptor: blocked for the whole process, read one by one.

pub use nix::sys::signal::Signal;
use nix::sys::signal::{SigSet, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

const HANDLED_SIGNALS: [Signal; 4] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

fn handled_set() -> SigSet {
    HANDLED_SIGNALS.into_iter().collect()
}

/// Unblocks the signals of a [`SignalDescriptor`]; async-signal-safe.
pub fn unblock_signals() -> io::Result<()> {
    Ok(handled_set().thread_unblock()?)
}

/// A received signal and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedSignal {
    pub signal: Signal,
    /// The terminal sent it to the whole foreground process group, including child processes.
    pub from_terminal: bool,
}

/// A descriptor of the blocked signals. Dropping it unblocks them.
#[derive(Debug)]
pub struct SignalDescriptor {
    descriptor: SignalFd,
}

impl SignalDescriptor {
    /// Blocks hangup, interrupt, quit and terminate in the calling thread (which should be the first) and opens the
    /// descriptor.
    pub fn block_and_open() -> io::Result<SignalDescriptor> {
        handled_set().thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let descriptor = SignalFd::with_flags(&handled_set(), flags)?;
        Ok(SignalDescriptor { descriptor })
    }

    /// Returns the next pending signal.
    pub fn next(&self) -> Option<ReceivedSignal> {
        let info = self.descriptor.read_signal().ok()??;
        Some(ReceivedSignal {
            signal: Signal::try_from(info.ssi_signo as i32).ok()?,
            from_terminal: info.ssi_code == libc::SI_KERNEL,
        })
    }
}

impl AsFd for SignalDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for SignalDescriptor {
    fn drop(&mut self) {
        while self.next().is_some() {}
        // We changed the mask before, so this cannot fail.
        let _ = unblock_signals();
    }
}

/// Sends a signal to a process.
pub fn send_signal(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(kill(Pid::from_raw(pid), signal)?)
}
