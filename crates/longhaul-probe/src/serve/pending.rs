//! Connections without a proof: limited in number, the oldest is closed first.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of pending connections.
pub(super) const MOST_PENDING: usize = 64;
/// The minimum time for each when the limit is reached: a run's own streams arrive in a burst, and
/// each needs only a moment. Older connections are closed at once.
const PATIENCE: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct Pending {
    held: Mutex<Held>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    /// Connections in order of arrival; closed by shutting down the socket, which wakes its thread.
    waiting: VecDeque<(u64, TcpStream, Instant)>,
}

/// A pending connection's slot; released when dropped.
#[derive(Debug)]
pub(super) struct PendingPlace<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Held {
    /// Returns the remaining minimum time of the oldest connection.
    fn patience(&self) -> Duration {
        let age = |(_, _, since): &(u64, TcpStream, Instant)| since.elapsed();
        PATIENCE.saturating_sub(self.waiting.front().map_or(PATIENCE, age))
    }
}

impl Pending {
    /// Takes a slot for a connection, if necessary that of the oldest one.
    pub fn enter(&self, stream: &TcpStream) -> io::Result<PendingPlace<'_>> {
        let stream = stream.try_clone()?;
        let mut held = self.lock();
        while held.waiting.len() >= MOST_PENDING {
            let patience = held.patience();
            if patience.is_zero() {
                if let Some((_, oldest, _)) = held.waiting.pop_front() {
                    // The socket may already be closed.
                    let _ = oldest.shutdown(Shutdown::Both);
                }
                break;
            }
            held = self
                .left
                .wait_timeout(held, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let number = held.next;
        held.next += 1;
        held.waiting.push_back((number, stream, Instant::now()));
        Ok(PendingPlace {
            pending: self,
            number,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingPlace<'_> {
    fn drop(&mut self) {
        let mut held = self.pending.lock();
        held.waiting.retain(|(number, ..)| *number != self.number);
        drop(held);
        self.pending.left.notify_one();
    }
}
