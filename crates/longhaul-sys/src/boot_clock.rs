//! Kernel clocks that the standard library does not read.

use nix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// Returns the time since the host booted, including suspend; it cannot be set.
pub fn time_since_boot() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_BOOTTIME)?.into())
}

#[cfg(test)]
mod tests {
    use super::time_since_boot;

    #[test]
    fn it_never_goes_back() {
        let first = time_since_boot().expect("every Linux has it");
        assert!(!first.is_zero());
        assert!(time_since_boot().expect("still") >= first);
    }
}
