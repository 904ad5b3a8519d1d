//! Kernel settings by their dotted names, in the calling thread's network namespace.

use std::io;
use std::path::PathBuf;

/// `net.ipv4.tcp_rmem` is a file below `/proc/sys`.
fn file(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// The value with single spaces.
pub(crate) fn read(name: &str) -> io::Result<String> {
    Ok(spaced(&std::fs::read_to_string(file(name))?))
}

pub(crate) fn write(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(file(name), value)
}

/// Lists are shown with tabs by the kernel and written with spaces by people.
pub(crate) fn spaced(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
