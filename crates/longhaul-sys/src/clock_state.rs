//! The kernel's state of the wall clock, as NTP or PTP programs set it: adjtimex(2).

use crate::syscall::check_status;
use std::io;
use std::time::Duration;

/// The state of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// A program steers the clock by a reference (`STA_UNSYNC` is off).
    pub synchronized: bool,
    /// Maximum error (`maxerror`). It grows by 500 ppm between two updates of that program.
    pub max_error: Duration,
}

/// Returns the state of the wall clock. Changes nothing and needs no privilege.
pub fn read_clock_state() -> io::Result<ClockState> {
    // SAFETY: an all-zero timex has the mode 0, which only reads.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure, which lives for the call.
    check_status(unsafe { libc::adjtimex(&raw mut state) })?;
    Ok(ClockState {
        synchronized: state.status & libc::STA_UNSYNC == 0,
        max_error: Duration::from_micros(u64::try_from(state.maxerror).unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::read_clock_state;
    use std::time::Duration;

    #[test]
    fn a_clock_that_nobody_steers_admits_a_large_error() {
        let state = read_clock_state().expect("every Linux has it");
        assert!(state.synchronized || state.max_error > Duration::from_secs(1), "{state:?}");
    }
}
