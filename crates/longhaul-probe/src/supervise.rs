//! Kernel services for programs that run measurements as child processes.

pub use longhaul_sys::listening_socket::set_dead_peer_timeout;

use longhaul_sys::signal::{self, Signal};
use std::io;
use std::time::Duration;

/// Returns the time since this host booted, including suspend; it cannot be set.
pub fn time_since_boot() -> io::Result<Duration> {
    longhaul_sys::boot_clock::time_since_boot()
}

/// Asks a child, which must not have been reaped yet, to end; it still prints its results.
pub fn terminate_child(pid: u32) -> io::Result<()> {
    signal::send_signal(pid, Signal::SIGTERM)
}
