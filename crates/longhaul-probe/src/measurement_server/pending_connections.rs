//! Connections without a proof: limited in number, the oldest is closed first.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The maximum number of pending connections.
pub(super) const MAX_PENDING: usize = 64;
/// The minimum time for each when the limit is reached: a run's own streams arrive in a burst, and
/// each needs only a moment. Older connections are closed at once.
const MIN_PENDING_TIME: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct PendingConnections {
    held: Mutex<PendingQueue>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct PendingQueue {
    next: u64,
    /// Connections in order of arrival; closed by shutting down the socket, which wakes its thread.
    waiting: VecDeque<(u64, TcpStream, Instant)>,
}

/// A pending connection's slot; released when dropped.
#[derive(Debug)]
pub struct PendingSlot<'a> {
    pending: &'a PendingConnections,
    number: u64,
}

impl PendingQueue {
    /// Returns the remaining minimum time of the oldest connection.
    fn time_left(&self) -> Duration {
        let age = |(_, _, since): &(u64, TcpStream, Instant)| since.elapsed();
        MIN_PENDING_TIME.saturating_sub(self.waiting.front().map_or(MIN_PENDING_TIME, age))
    }
}

impl PendingConnections {
    /// Takes a slot for a connection, if necessary that of the oldest one.
    pub fn register(&self, stream: &TcpStream) -> io::Result<PendingSlot<'_>> {
        let stream = stream.try_clone()?;
        let mut held = self.held.lock();
        while held.waiting.len() >= MAX_PENDING {
            let patience = held.time_left();
            if patience.is_zero() {
                if let Some((_, oldest, _)) = held.waiting.pop_front() {
                    // The socket may already be closed.
                    let _ = oldest.shutdown(Shutdown::Both);
                }
                break;
            }
            self.left.wait_for(&mut held, patience);
        }
        let number = held.next;
        held.next += 1;
        held.waiting.push_back((number, stream, Instant::now()));
        Ok(PendingSlot { pending: self, number })
    }
}

impl Drop for PendingSlot<'_> {
    fn drop(&mut self) {
        let mut held = self.pending.held.lock();
        held.waiting.retain(|(number, ..)| *number != self.number);
        drop(held);
        self.pending.left.notify_one();
    }
}
