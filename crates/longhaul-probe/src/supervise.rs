//! Kernel services for programs that run measurements as child processes.

use longhaul_sys::signal::{self, Signal};
use std::io;
use std::time::Duration;

/// Returns the time since this host booted, including suspend; it cannot be set.
pub fn since_boot() -> io::Result<Duration> {
    longhaul_sys::clock::since_boot()
}

/// Asks a child, which must not have been reaped yet, to end; it still prints its results.
pub fn ask_to_end(pid: u32) -> io::Result<()> {
    signal::send(pid, Signal::Terminate)
}
