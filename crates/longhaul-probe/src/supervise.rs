//! What a program that runs measurements as its children asks of the kernel.

use longhaul_sys::signal::{self, Signal};
use std::io;
use std::time::Duration;

/// Time since this host booted, the time that it slept included. Nobody can set it.
pub fn since_boot() -> io::Result<Duration> {
    longhaul_sys::clock::since_boot()
}

/// Asks a child, which must not have been waited for yet, to end: it shows what it has.
pub fn ask_to_end(pid: u32) -> io::Result<()> {
    signal::send(pid, Signal::Terminate)
}
