//! Connections that have not proved anything yet: bounded in number, the oldest gives way.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many of them at one time.
pub(super) const MOST_PENDING: usize = 64;
/// In a full house each may stay this long at least: a run's own streams come in a burst, and each
/// needs a moment only. Whoever has been silent for longer gives way at once.
const PATIENCE: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct Pending {
    held: Mutex<Held>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    /// In order of arrival; shown out by shutting the socket down, which wakes its thread.
    waiting: VecDeque<(u64, TcpStream, Instant)>,
}

/// A place among the pending; given back when dropped.
#[derive(Debug)]
pub(super) struct PendingPlace<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Held {
    /// What is left of the time that is due to the oldest.
    fn patience(&self) -> Duration {
        let age = |(_, _, since): &(u64, TcpStream, Instant)| since.elapsed();
        PATIENCE.saturating_sub(self.waiting.front().map_or(PATIENCE, age))
    }
}

impl Pending {
    /// Takes a place for a connection, if need be that of the one that waited longest.
    pub fn enter(&self, stream: &TcpStream) -> io::Result<PendingPlace<'_>> {
        let stream = stream.try_clone()?;
        let mut held = self.lock();
        while held.waiting.len() >= MOST_PENDING {
            let patience = held.patience();
            if patience.is_zero() {
                if let Some((_, oldest, _)) = held.waiting.pop_front() {
                    // It may be gone by itself already.
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
