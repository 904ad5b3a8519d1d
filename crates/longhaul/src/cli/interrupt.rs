//! Ctrl-C: the first one ends a measurement, the second one ends the program at once.

use crate::command_failure::{CommandFailure, HOST, INTERRUPTED};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns a flag that the first signal sets. The second one ends the program.
pub fn install_stop_flag() -> Result<Arc<AtomicBool>, CommandFailure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .map_err(|e| signal_failure(&e))?;
    }
    register_flag(&[SIGINT, SIGTERM], &stop)?;
    Ok(stop)
}

/// Returns a flag that any of the signals sets, at any time.
pub fn register_signals(signals: &[c_int]) -> Result<Arc<AtomicBool>, CommandFailure> {
    let stop = Arc::new(AtomicBool::new(false));
    register_flag(signals, &stop)?;
    Ok(stop)
}

fn register_flag(signals: &[c_int], stop: &Arc<AtomicBool>) -> Result<(), CommandFailure> {
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(stop)).map_err(|e| signal_failure(&e))?;
    }
    Ok(())
}

fn signal_failure(error: &io::Error) -> CommandFailure {
    CommandFailure::from_error(HOST, error)
        .hint(Some("check that this process may install signal handlers"))
}
