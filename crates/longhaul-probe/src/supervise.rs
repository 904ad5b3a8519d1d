//! Services for programs that end measurements: their own, and those of child processes.

pub use longhaul_sys::listening_socket::set_dead_peer_timeout;

use longhaul_sys::signal::{self, Signal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use std::{io, thread};

/// Set when the user ends a measurement.
pub type StopFlag = Arc<AtomicBool>;

/// The interval at which a stop is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a call that may block, such as the resolution of a name, in its own thread. Returns `None`
/// if `stop` is set first; the call is then abandoned, and ends with the program.
pub fn call_until_stopped<T: Send + 'static>(
    stop: &AtomicBool,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (done, result) = mpsc::channel();
    thread::Builder::new().name("connect".to_owned()).spawn(move || {
        // Nobody listens after a stop.
        let _ = done.send(call());
    })?;
    loop {
        match result.recv_timeout(POLL_INTERVAL) {
            Ok(value) => return Ok(Some(value)),
            Err(mpsc::RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => return Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("its thread panicked"));
            }
        }
    }
}

/// Returns the time since this host booted, including suspend; it cannot be set.
pub fn time_since_boot() -> io::Result<Duration> {
    longhaul_sys::boot_clock::time_since_boot()
}

/// Asks a child, which must not have been reaped yet, to end; it still prints its results.
pub fn terminate_child(pid: u32) -> io::Result<()> {
    signal::send_signal(pid, Signal::SIGTERM)
}
