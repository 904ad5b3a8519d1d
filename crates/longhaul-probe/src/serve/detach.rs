//! A service that goes into the background: the caller's process ends, a copy of it serves on.

use longhaul_sys::process::{self, Fork};
use std::fs::OpenOptions;
use std::io;

/// Which side of the detachment this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detached {
    /// The process that was called; the other one has this id.
    Caller { service: u32 },
    /// The one in the background: a session of its own, in `/`, without a terminal.
    Service,
}

/// Detaches. Listeners that are open stay open at both sides.
///
/// # Errors
/// The kernel makes no process; or this one has more than one thread, of which only one would live
/// on.
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
