//! The machine's clock: its source, and whether it is synchronised.
//!
//! Source: sysfs `clocksource0`, adjtimex(2).

use std::fs;
use std::io;

const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";

fn read_clocksource_file(file: &str) -> Option<String> {
    let text = fs::read_to_string(format!("{FOLDER}/{file}")).ok()?;
    Some(text.trim().to_owned())
}

/// Returns the current clock source, such as `tsc`.
pub fn current_source() -> Option<String> {
    read_clocksource_file("current_clocksource")
}

/// Returns the selectable clock sources.
pub fn available_sources() -> Option<String> {
    read_clocksource_file("available_clocksource")
}

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
    fn this_machine_reads_its_clock_from_one_of_its_sources() {
        let source = current_source().expect("a clock source");
        let all = available_sources().expect("clock sources");
        assert!(all.split_ascii_whitespace().any(|one| one == source));
        is_synchronised().expect("adjtimex");
    }
}
