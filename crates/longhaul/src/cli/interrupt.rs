//! Signals: the first one ends a measurement, whose result is then shown and archived. A second
//! Ctrl-C or SIGTERM ends the program at once.
//!
//! A terminal that closes sends SIGHUP, often more than once (the kernel and the shell), so that it
//! never ends the program at once; under `nohup` it stays ignored.

use crate::command_failure::{CommandFailure, HOST, INTERRUPTED};
use longhaul_probe::supervise::StopFlag;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::c_int;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The flag of the measurement that a signal would cut short.
static CUT_SHORT: OnceLock<StopFlag> = OnceLock::new();

/// Returns a flag that the first signal sets. The program then ends with the exit code of an
/// interruption, whatever the command returns.
pub fn install_stop_flag() -> Result<StopFlag, CommandFailure> {
    let stop = install_end_flag()?;
    Ok(StopFlag::clone(CUT_SHORT.get_or_init(|| stop)))
}

/// Returns the flag of a measurement that lasts until its user ends it: the first signal sets it,
/// and cuts nothing short.
pub fn install_end_flag() -> Result<StopFlag, CommandFailure> {
    let stop = StopFlag::default();
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, code, StopFlag::clone(&stop))
            .map_err(|e| signal_failure(&e))?;
    }
    register_flag(&[SIGINT, SIGTERM], &stop)?;
    if !is_signal_ignored(SIGHUP) {
        register_flag(&[SIGHUP], &stop)?;
    }
    Ok(stop)
}

/// Declares that the signal that set this flag has cut a measurement short.
pub fn cut_short(stop: &StopFlag) {
    CUT_SHORT.get_or_init(|| StopFlag::clone(stop));
}

/// Returns whether a signal has cut a measurement short.
pub fn was_cut_short() -> bool {
    CUT_SHORT.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// Returns the message about a measurement that a signal has cut short.
pub fn interrupted_failure() -> CommandFailure {
    CommandFailure::new(INTERRUPTED, "the measurement was interrupted")
        .hint(Some("the result is that of what was measured until then"))
}

/// Returns a flag that any of the signals sets, at any time.
pub fn register_signals(signals: &[c_int]) -> Result<StopFlag, CommandFailure> {
    let stop = StopFlag::default();
    register_flag(signals, &stop)?;
    Ok(stop)
}

fn register_flag(signals: &[c_int], stop: &StopFlag) -> Result<(), CommandFailure> {
    for signal in signals {
        signal_hook::flag::register(*signal, StopFlag::clone(stop))
            .map_err(|e| signal_failure(&e))?;
    }
    Ok(())
}

/// Returns whether this process was started with the signal ignored (proc(5), `SigIgn`).
fn is_signal_ignored(signal: c_int) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn signal_failure(error: &io::Error) -> CommandFailure {
    CommandFailure::from_error(HOST, error)
        .hint(Some("check that this process may install signal handlers"))
}
