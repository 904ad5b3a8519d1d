//! The machine's clock: whether it is synchronised.
//!
//! Source: adjtimex(2).

use std::io;

/// Returns whether the kernel considers its clock synchronised (STA_UNSYNC is off).
///
/// Wrong when: the clock is maintained by a program that steps it without informing the kernel.
pub fn is_synchronised() -> io::Result<bool> {
    // SAFETY: an all-zero timex asks for nothing to be changed.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives for the call.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    crate::syscall::check_status(answer)?;
    Ok(state.status & libc::STA_UNSYNC == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_knows_whether_its_clock_is_synchronised() {
        is_synchronised().expect("adjtimex");
    }
}
