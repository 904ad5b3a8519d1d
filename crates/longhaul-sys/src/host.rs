//! What this host says of itself: names, sysctls, cores, protocol counters, interfaces.
//!
//! Everything is read as the calling thread's network namespace sees it. A reading that cannot
//! be had is absent.

pub mod cores;
pub mod interface;
pub mod protocol;
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
