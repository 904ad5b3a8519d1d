//! A reading of a stream, taken by the stream's own thread when the sampler is about to want it.
//!
//! The kernel gives its reading of a connection, and of the queue, only under the connection's
//! lock, and the thread of a fast stream holds that nearly always. A sampler that waits for it is
//! woken again and again by that thread, which soon has the lock once more: a hundred readings a
//! second cost a stream of 50 Gbit/s on loopback 5 to 7 % of its goodput. The thread itself takes
//! a reading between two calls for next to nothing. One that sleeps in a call has let go of the
//! lock, so that the sampler can read by itself.

use super::Role;
use super::run::{Shared, StreamState};
use super::sockets::{self, DataSocket};
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_sys::{sockopt, tcp_info};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So long before the sampler comes for it a reading may be taken. A busy stream's thread is
/// between two calls more often.
pub(super) const LEAD: Duration = Duration::from_millis(1);
/// Nothing is asked.
const NEVER_NS: u64 = u64::MAX;

/// What only the connection's lock, or the stream's thread, makes one moment of.
#[derive(Debug)]
pub(super) struct Reading {
    pub at_us: u64,
    pub bytes: u64,
    pub blocked_us: u64,
    pub queue_bytes: Option<u64>,
    pub info: Option<TcpInfo>,
}

impl Reading {
    /// By whichever thread calls.
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
                    // A failure leaves a window that the samples show.
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

/// By the stream's thread, between two calls: answers if it is asked for this time or before.
pub(super) fn answer(shared: &Shared, stream: &StreamState, now_ns: u64) {
    let reading = || Reading::take(shared, stream);
    stream.asked.answer_if_due(now_ns, reading);
}

/// Where one stream is asked, and answers.
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

    /// By the sampler: a reading is wanted of `due_ns` or soon after.
    pub fn ask(&self, due_ns: u64) {
        self.due_ns.store(due_ns, Relaxed);
    }

    /// What the stream's thread has said since; asks no longer.
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
