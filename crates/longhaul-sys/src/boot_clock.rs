//! Kernel clocks that the standard library does not read.

use crate::syscall::check_status;
use std::io;
use std::time::Duration;

/// Returns the time since the host booted, including suspend; it cannot be set.
pub fn time_since_boot() -> io::Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` lives for the call.
    check_status(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) })?;
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
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
