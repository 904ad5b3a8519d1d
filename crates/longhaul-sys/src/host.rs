//! What this host says of itself: names, sysctls, cores, protocol counters, interfaces and what
//! stands behind them (driver, queue, route, bus, interrupts, clock).
//!
//! Everything is read as the calling thread's network namespace sees it. A reading that cannot
//! be had is absent.

pub mod clock;
pub mod core_list;
pub mod cores;
pub mod cpu;
pub mod ethtool;
pub mod interface;
pub mod interrupts;
pub mod pci;
pub mod protocol;
pub mod qdisc;
pub mod route;
pub mod softnet;
pub mod sysctl;

/// The host's name; empty when it cannot be read.
pub fn name() -> String {
    sysctl::read("kernel.hostname").unwrap_or_default()
}

/// The kernel, as `Linux 6.18.0`; empty when it cannot be read.
pub fn kernel() -> String {
    sysctl::read("kernel.osrelease")
        .map(|release| format!("Linux {release}"))
        .unwrap_or_default()
}

/// Changes with every boot; the same in every namespace and container of one machine.
pub fn boot_id() -> Option<String> {
    sysctl::read("kernel.random.boot_id")
}

/// Memory of the machine.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
