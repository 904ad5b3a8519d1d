//! Locks on files that another process may hold for a moment.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Locks a file, and tries again for this long while another process has it locked.
///
/// # Errors
/// `WouldBlock` if it is still locked then, or the error of the system.
pub fn lock_within(file: &File, wait: Duration) -> Result<(), TryLockError> {
    let deadline = Instant::now() + wait;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}
