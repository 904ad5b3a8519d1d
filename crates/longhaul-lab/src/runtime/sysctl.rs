//! Reads and writes sysctls by their dotted names, in the calling thread's network namespace.

use std::io;
use std::path::PathBuf;

/// Returns the file below `/proc/sys` of a sysctl such as `net.ipv4.tcp_rmem`.
fn file(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// Reads the value, normalised to single spaces.
pub(crate) fn read(name: &str) -> io::Result<String> {
    Ok(spaced(&std::fs::read_to_string(file(name))?))
}

pub(crate) fn write(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(file(name), value)
}

/// Normalises white space: the kernel separates lists with tabs, people use spaces.
pub(crate) fn spaced(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
