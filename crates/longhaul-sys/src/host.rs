//! Properties of this host: names, sysctls, cores, protocol counters, interfaces and their hardware
//! (driver, queues, route, bus, interrupts, clock).
//!
//! All values are those of the calling thread's network namespace. Unavailable values are absent.

pub mod clock_source;
pub mod core_list;
pub mod core_times;
pub mod cpu_config;
pub mod ethtool;
pub mod interrupts;
pub mod kernel_route;
pub mod network_interface;
pub mod pci;
pub mod protocol_counters;
pub mod qdisc;
pub mod softnet_stats;
pub mod sysctl_values;

use std::path::Path;

/// Returns the content of a file of /proc or /sys without white space around it; `None` if it is
/// empty or unreadable.
pub fn read_kernel_file(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the host name; empty if it cannot be read.
pub fn read_host_name() -> String {
    sysctl_values::read_setting("kernel.hostname").unwrap_or_default()
}

/// Returns the kernel version, as `Linux 6.18.0`; empty if it cannot be read.
pub fn read_kernel_version() -> String {
    sysctl_values::read_setting("kernel.osrelease")
        .map(|release| format!("Linux {release}"))
        .unwrap_or_default()
}

/// Returns an id that changes with every boot, and is the same in all namespaces and containers.
pub fn boot_id() -> Option<String> {
    sysctl_values::read_setting("kernel.random.boot_id")
}

/// Returns the machine's memory size.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
