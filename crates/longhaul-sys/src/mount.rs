//! Mounts in the caller's own mount namespace.

use nix::mount::{MsFlags, mount};
use std::ffi::CStr;
use std::io;
use std::path::Path;

const NONE: Option<&str> = None;

/// Hides all later mounts of this namespace from others.
pub fn make_mounts_private() -> io::Result<()> {
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    Ok(mount(Some("none"), "/", NONE, flags, NONE)?)
}

/// Bind-mounts `file` over `on`.
pub fn bind_mount(file: &Path, on: &Path) -> io::Result<()> {
    Ok(mount(Some(file), on, NONE, MsFlags::MS_BIND, NONE)?)
}

/// Mounts a sysfs on `/sys` with the network devices of the thread's namespace.
pub fn mount_sysfs() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(mount(Some("sysfs"), "/sys", Some("sysfs"), flags, NONE)?)
}

/// Mounts a procfs on `/proc` with the processes of the caller's PID namespace; async-signal-safe.
pub fn mount_procfs() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(mount(Some(c"proc"), c"/proc", Some(c"proc"), flags, None::<&CStr>)?)
}
