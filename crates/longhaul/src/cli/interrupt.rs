//! Ctrl-C: the first one ends a measurement, the second one ends the program at once.

use crate::command_failure::{CommandFailure, HOST, INTERRUPTED};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns a flag that the first signal sets.
pub fn install_stop_flag() -> Result<Arc<AtomicBool>, CommandFailure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| {
                CommandFailure::from_error(HOST, &e)
                    .hint(Some("check that this process may install signal handlers"))
            })?;
    }
    Ok(stop)
}
