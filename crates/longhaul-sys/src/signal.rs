//! Signals as a descriptor: blocked for the whole process, read one by one.

use crate::syscall::{count, descriptor, status};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Signals that a supervisor handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Hangup,
    Interrupt,
    Quit,
    Terminate,
    Kill,
}

impl Signal {
    /// Returns the signal's number; shells report it as 128 + n.
    pub fn number(self) -> i32 {
        match self {
            Signal::Hangup => libc::SIGHUP,
            Signal::Interrupt => libc::SIGINT,
            Signal::Quit => libc::SIGQUIT,
            Signal::Terminate => libc::SIGTERM,
            Signal::Kill => libc::SIGKILL,
        }
    }
}

const TAKEN: [Signal; 4] = [
    Signal::Hangup,
    Signal::Interrupt,
    Signal::Quit,
    Signal::Terminate,
];

fn taken_set() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid memory for sigemptyset to fill.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is ours.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in TAKEN {
        // SAFETY: `set` is ours and the number is a signal.
        unsafe { libc::sigaddset(&raw mut set, signal.number()) };
    }
    set
}

fn mask(how: i32) -> io::Result<()> {
    let set = taken_set();
    // SAFETY: `set` lives for the call; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Blocks hangup, interrupt, quit and terminate in the calling thread and its future threads.
pub fn block() -> io::Result<()> {
    mask(libc::SIG_BLOCK)
}

/// Undoes [`block`]; async-signal-safe.
pub fn unblock() -> io::Result<()> {
    mask(libc::SIG_UNBLOCK)
}

/// A received signal and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    pub signal: Signal,
    /// The terminal sent it to the whole foreground process group, including child processes.
    pub from_terminal: bool,
}

/// A descriptor of the blocked signals. Dropping it unblocks them.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
}

impl Signals {
    /// Blocks the signals in the calling thread (which should be the first) and opens the
    /// descriptor.
    pub fn take() -> io::Result<Signals> {
        block()?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        let set = taken_set();
        // SAFETY: `set` lives for the call.
        let descriptor = descriptor(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        Ok(Signals { descriptor })
    }

    /// Returns the next pending signal.
    pub fn next(&self) -> Option<Came> {
        // SAFETY: all-zero is a valid signalfd_siginfo.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let (raw, size) = (self.descriptor.as_raw_fd(), size_of_val(&info));
        // SAFETY: `info` is ours and its size is passed with it.
        let read = count(unsafe { libc::read(raw, (&raw mut info).cast(), size) }).ok()?;
        let number = info.ssi_signo as i32;
        let signal = TAKEN.into_iter().find(|each| each.number() == number)?;
        (read == size).then_some(Came {
            signal,
            from_terminal: info.ssi_code == libc::SI_KERNEL,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        while self.next().is_some() {}
        // We changed the mask before, so this cannot fail.
        let _ = unblock();
    }
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: kill touches no memory.
    status(unsafe { libc::kill(pid, signal.number()) })
}
