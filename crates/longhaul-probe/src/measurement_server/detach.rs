//! Detaching: the caller's process ends, and a copy of it continues in the background.

use longhaul_sys::process_control::{self, ForkSide};
use std::fs::OpenOptions;
use std::io;

/// The process that returns from [`detach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetachedProcess {
    /// The original process; the other one has this id.
    Caller { service: u32 },
    /// The background process: in its own session, in `/`, without a terminal.
    Service,
}

/// Forks a background process. Open listeners stay open in both processes.
///
/// # Errors
/// The kernel cannot fork; or this process has several threads, of which only one would survive.
pub fn detach() -> io::Result<DetachedProcess> {
    let nowhere = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    match process_control::fork_process()? {
        ForkSide::Parent { child } => Ok(DetachedProcess::Caller { service: child }),
        ForkSide::Child => {
            process_control::new_session()?;
            std::env::set_current_dir("/")?;
            process_control::redirect_standard(&nowhere)?;
            Ok(DetachedProcess::Service)
        }
    }
}
