//! Readings of a stream that its own thread takes shortly before the sampler needs them.
//!
//! The kernel returns the TCP_INFO and the queue of a connection only under the connection's lock,
//! which the thread of a fast stream holds almost always. A sampler that waits for the lock is
//! repeatedly woken by that thread, which soon holds the lock again: a hundred readings a second
//! cost a stream of 50 Gbit/s on loopback 5 to 7 % of its goodput. The stream's thread can take a
//! reading between two calls at almost no cost. A thread that sleeps in a call has released the
//! lock, so the sampler can take the reading itself.

use super::Role;
use super::run::{Shared, StreamState};
use super::sockets::{self, DataSocket};
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_sys::{sockopt, tcp_info};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time before a sample from which the stream's thread may take the reading. A busy thread is
/// between two calls more often than that.
pub(super) const LEAD: Duration = Duration::from_millis(1);
/// The due time when no reading is requested.
const NEVER_NS: u64 = u64::MAX;

/// A consistent reading, which needs the connection's lock or the stream's thread.
#[derive(Debug)]
pub(super) struct Reading {
    pub at_us: u64,
    pub bytes: u64,
    pub blocked_us: u64,
    pub queue_bytes: Option<u64>,
    pub info: Option<TcpInfo>,
}

impl Reading {
    /// Takes a reading in the calling thread.
    pub fn take(shared: &Shared, stream: &StreamState) -> Reading {
        let at_us = shared.clock().now_ns() / 1000;
        let (bytes, blocked_us) = (stream.counters.bytes(), stream.counters.blocked_us());
        let socket = &stream.socket;
        let queue = match shared.spec.role {
            Role::Sender => sockopt::send_queue_bytes(socket),
            Role::Receiver => sockopt::receive_queue_bytes(socket),
        };
        let info = match socket {
            DataSocket::Tcp(socket) => {
                if shared.bounds_window() {
                    // If this fails, the samples show the window.
                    let _ = sockets::bound_window(socket, &shared.spec.plan);
                }
                tcp_info::read(socket).ok()
            }
            DataSocket::Udp(_) => None,
        };
        Reading {
            at_us,
            bytes,
            blocked_us,
            queue_bytes: queue.ok(),
            info,
        }
    }
}

/// Takes a reading in the stream's thread, between two calls, if one is due.
pub(super) fn answer(shared: &Shared, stream: &StreamState, now_ns: u64) {
    let reading = || Reading::take(shared, stream);
    stream.asked.answer_if_due(now_ns, reading);
}

/// The request for a reading of one stream, and the reading.
#[derive(Debug)]
pub(super) struct Asked {
    due_ns: AtomicU64,
    answer: Mutex<Option<Reading>>,
}

impl Asked {
    pub fn new() -> Asked {
        Asked {
            due_ns: AtomicU64::new(NEVER_NS),
            answer: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reading>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a reading at `due_ns` or soon after. Called by the sampler.
    pub fn ask(&self, due_ns: u64) {
        self.due_ns.store(due_ns, Relaxed);
    }

    /// Returns the reading taken since the request, and cancels the request.
    pub fn answer(&self) -> Option<Reading> {
        let mut answer = self.lock();
        self.due_ns.store(NEVER_NS, Relaxed);
        answer.take()
    }

    fn answer_if_due(&self, now_ns: u64, reading: impl FnOnce() -> Reading) {
        if now_ns < self.due_ns.load(Relaxed) {
            return;
        }
        let mut answer = self.lock();
        if self.due_ns.swap(NEVER_NS, Relaxed) != NEVER_NS {
            *answer = Some(reading());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_us: u64) -> Reading {
        Reading {
            at_us,
            bytes: 0,
            blocked_us: 0,
            queue_bytes: None,
            info: None,
        }
    }

    #[test]
    fn a_question_is_answered_once_when_it_is_due_and_one_that_nobody_waits_for_is_not() {
        let asked = Asked::new();
        asked.answer_if_due(5, || unreachable!("nobody asked"));
        asked.ask(10);
        asked.answer_if_due(9, || unreachable!("not yet"));
        asked.answer_if_due(10, || reading(1));
        asked.answer_if_due(11, || unreachable!("answered already"));
        assert_eq!(asked.answer().map(|it| it.at_us), Some(1));
        asked.ask(20);
        assert!(asked.answer().is_none(), "the thread slept");
        asked.answer_if_due(21, || unreachable!("the sampler has read by itself"));
    }
}
