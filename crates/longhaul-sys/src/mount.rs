//! Mounts in the caller's own mount namespace.

use crate::syscall::check_status;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn call_mount(what: &CStr, on: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let data = std::ptr::null();
    // SAFETY: all three are terminated strings that outlive the call; no data is passed.
    check_status(unsafe { libc::mount(what.as_ptr(), on.as_ptr(), kind.as_ptr(), flags, data) })
}

/// Hides all later mounts of this namespace from others.
pub fn make_mounts_private() -> io::Result<()> {
    call_mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE)
}

/// Bind-mounts `file` over `on`.
pub fn bind_mount(file: &Path, on: &Path) -> io::Result<()> {
    let terminated = |path: &Path| CString::new(path.as_os_str().as_bytes());
    call_mount(&terminated(file)?, &terminated(on)?, c"", libc::MS_BIND)
}

/// Mounts a sysfs on `/sys` with the network devices of the thread's namespace.
pub fn mount_sysfs() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    call_mount(c"sysfs", c"/sys", c"sysfs", flags)
}
