//! Connections that have not proved anything yet: bounded in number, the oldest gives way.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many of them at one time.
pub(super) const MOST_PENDING: usize = 64;
/// A full house is given this long before the oldest is shown out: a run's own streams come in
/// a burst, and each needs a moment only.
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
    waiting: VecDeque<(u64, TcpStream)>,
}

/// A place among the pending; given back when dropped.
#[derive(Debug)]
pub(super) struct PendingPlace<'a> {
    pending: &'a Pending,
    number: u64,
}

impl Pending {
    /// Takes a place for a connection, if need be that of the one that waited longest.
    pub fn enter(&self, stream: &TcpStream) -> io::Result<PendingPlace<'_>> {
        let stream = stream.try_clone()?;
        let full = |held: &mut Held| held.waiting.len() >= MOST_PENDING;
        let (mut held, _) = self
            .left
            .wait_timeout_while(self.lock(), PATIENCE, full)
            .unwrap_or_else(PoisonError::into_inner);
        if full(&mut held)
            && let Some((_, oldest)) = held.waiting.pop_front()
        {
            // It may be gone by itself already.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = held.next;
        held.next += 1;
        held.waiting.push_back((number, stream));
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
        held.waiting.retain(|(number, _)| *number != self.number);
        drop(held);
        self.pending.left.notify_one();
    }
}
