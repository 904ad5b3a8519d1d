//! Detaching: the caller's process ends, and a copy of it continues in the background.

use longhaul_sys::process::{self, Fork};
use std::fs::OpenOptions;
use std::io;

/// The process that returns from [`detach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detached {
    /// The original process; the other one has this id.
    Caller { service: u32 },
    /// The background process: in its own session, in `/`, without a terminal.
    Service,
}

/// Forks a background process. Open listeners stay open in both processes.
///
/// # Errors
/// The kernel cannot fork; or this process has several threads, of which only one would survive.
pub fn detach() -> io::Result<Detached> {
    let nowhere = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    match process::fork()? {
        Fork::Parent { child } => Ok(Detached::Caller { service: child }),
        Fork::Child => {
            process::new_session()?;
            std::env::set_current_dir("/")?;
            process::redirect_standard(&nowhere)?;
            Ok(Detached::Service)
        }
    }
}
