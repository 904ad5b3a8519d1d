//! Signals as a descriptor: blocked for the whole process, read one by one.

use crate::syscall::{check_count, check_descriptor, check_status};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Signals that a supervisor handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessSignal {
    Hangup,
    Interrupt,
    Quit,
    Terminate,
    Kill,
}

impl ProcessSignal {
    /// Returns the signal's number; shells report it as 128 + n.
    pub fn number(self) -> i32 {
        match self {
            ProcessSignal::Hangup => libc::SIGHUP,
            ProcessSignal::Interrupt => libc::SIGINT,
            ProcessSignal::Quit => libc::SIGQUIT,
            ProcessSignal::Terminate => libc::SIGTERM,
            ProcessSignal::Kill => libc::SIGKILL,
        }
    }
}

const HANDLED_SIGNALS: [ProcessSignal; 4] = [
    ProcessSignal::Hangup,
    ProcessSignal::Interrupt,
    ProcessSignal::Quit,
    ProcessSignal::Terminate,
];

fn handled_set() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid memory for sigemptyset to fill.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is ours.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in HANDLED_SIGNALS {
        // SAFETY: `set` is ours and the number is a signal.
        unsafe { libc::sigaddset(&raw mut set, signal.number()) };
    }
    set
}

fn change_signal_mask(how: i32) -> io::Result<()> {
    let set = handled_set();
    // SAFETY: `set` lives for the call; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Blocks hangup, interrupt, quit and terminate in the calling thread and its future threads.
pub fn block_signals() -> io::Result<()> {
    change_signal_mask(libc::SIG_BLOCK)
}

/// Undoes [`block_signals`]; async-signal-safe.
pub fn unblock_signals() -> io::Result<()> {
    change_signal_mask(libc::SIG_UNBLOCK)
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
    descriptor: OwnedFd,
}

impl SignalDescriptor {
    /// Blocks the signals in the calling thread (which should be the first) and opens the
    /// descriptor.
    pub fn block_and_open() -> io::Result<SignalDescriptor> {
        block_signals()?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        let set = handled_set();
        // SAFETY: `set` lives for the call.
        let descriptor = check_descriptor(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        Ok(SignalDescriptor { descriptor })
    }

    /// Returns the next pending signal.
    pub fn next(&self) -> Option<ReceivedSignal> {
        // SAFETY: all-zero is a valid signalfd_siginfo.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let (raw, size) = (self.descriptor.as_raw_fd(), size_of_val(&info));
        // SAFETY: `info` is ours and its size is passed with it.
        let read = check_count(unsafe { libc::read(raw, (&raw mut info).cast(), size) }).ok()?;
        let number = info.ssi_signo as i32;
        let signal = HANDLED_SIGNALS
            .into_iter()
            .find(|each| each.number() == number)?;
        (read == size).then_some(ReceivedSignal {
            signal,
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
    let pid = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: kill touches no memory.
    check_status(unsafe { libc::kill(pid, signal.number()) })
}
