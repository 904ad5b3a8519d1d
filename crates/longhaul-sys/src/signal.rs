//! Signals as a descriptor: blocked for the whole process, read one by one.

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Signals that a supervisor handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum ProcessSignal {
    Hangup = libc::SIGHUP,
    Interrupt = libc::SIGINT,
    Quit = libc::SIGQUIT,
    Terminate = libc::SIGTERM,
    Kill = libc::SIGKILL,
}

impl ProcessSignal {
    /// Returns the signal's number; shells report it as 128 + n.
    pub fn number(self) -> i32 {
        self as i32
    }
}

const HANDLED_SIGNALS: [ProcessSignal; 4] = [
    ProcessSignal::Hangup,
    ProcessSignal::Interrupt,
    ProcessSignal::Quit,
    ProcessSignal::Terminate,
];

fn handled_set() -> SigSet {
    HANDLED_SIGNALS.into_iter().filter_map(|each| Signal::try_from(each.number()).ok()).collect()
}

/// Unblocks the signals of a [`SignalDescriptor`]; async-signal-safe.
pub fn unblock_signals() -> io::Result<()> {
    Ok(handled_set().thread_unblock()?)
}

/// A received signal and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedSignal {
    pub signal: ProcessSignal,
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
        let number = info.ssi_signo as i32;
        let mut handled = HANDLED_SIGNALS.into_iter();
        Some(ReceivedSignal {
            signal: handled.find(|each| each.number() == number)?,
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
pub fn send_signal(pid: u32, signal: ProcessSignal) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(kill(Pid::from_raw(pid), Signal::try_from(signal.number())?)?)
}
