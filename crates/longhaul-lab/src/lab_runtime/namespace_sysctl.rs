//! Reads and writes sysctls by their dotted names, in the calling thread's network namespace.

use std::io;
use std::path::PathBuf;

/// Returns the file below `/proc/sys` of a sysctl such as `net.ipv4.tcp_rmem`.
pub(crate) fn sysctl_path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// Reads the value, normalised to single spaces.
pub(crate) fn read_sysctl(name: &str) -> io::Result<String> {
    Ok(normalize_spaces(&std::fs::read_to_string(sysctl_path(name))?))
}

pub(crate) fn write_sysctl(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(sysctl_path(name), value)
}

/// Normalises white space: the kernel separates lists with tabs, people use spaces.
pub(crate) fn normalize_spaces(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}
