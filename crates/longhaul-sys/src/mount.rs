//! Mounts in the caller's own mount namespace.

use crate::syscall::status;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn mount(what: &CStr, on: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let data = std::ptr::null();
    // SAFETY: all three are terminated strings that outlive the call; no data is passed.
    status(unsafe { libc::mount(what.as_ptr(), on.as_ptr(), kind.as_ptr(), flags, data) })
}

/// Hides all later mounts of this namespace from others.
pub fn make_private() -> io::Result<()> {
    mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE)
}

/// Bind-mounts `file` over `on`.
pub fn bind(file: &Path, on: &Path) -> io::Result<()> {
    let terminated = |path: &Path| CString::new(path.as_os_str().as_bytes());
    mount(&terminated(file)?, &terminated(on)?, c"", libc::MS_BIND)
}

/// Mounts a sysfs on `/sys` with the network devices of the thread's namespace.
pub fn sysfs() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(c"sysfs", c"/sys", c"sysfs", flags)
}
