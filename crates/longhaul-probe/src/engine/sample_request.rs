//! Readings of a stream that its own thread takes shortly before the sampler needs them.
//!
//! The kernel returns the TCP_INFO and the queue of a connection only under the connection's lock,
//! which the thread of a fast stream holds almost always. A sampler that waits for the lock is
//! repeatedly woken by that thread, which soon holds the lock again: a hundred readings a second
//! cost a stream of 50 Gbit/s on loopback 5 to 7 % of its goodput. The stream's thread can take a
//! reading between two calls at almost no cost. A thread that sleeps in a call has released the
//! lock, so the sampler can take the reading itself.

use super::TransferRole;
use super::end_run::{EngineShared, StreamState};
use super::sockets::{self, DataSocket};
use longhaul_model::report::v1::observation::StreamSample;
use longhaul_sys::{sockopt, tcp_info};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The time before a sample from which the stream's thread may take the reading. A busy thread is
/// between two calls more often than that.
pub(super) const SAMPLE_LEAD: Duration = Duration::from_millis(1);
/// The due time when no reading is requested.
const NEVER_NS: u64 = u64::MAX;

/// Takes a consistent reading, which needs the connection's lock or the stream's thread, without
/// the thread's times.
pub(super) fn read_stream(shared: &EngineShared, stream: &StreamState) -> StreamSample {
    let at_us = shared.clock().now_ns() / 1000;
    let (bytes, blocked_us) = (stream.counters.bytes(), stream.counters.blocked_us());
    let socket = &stream.socket;
    let queue = match shared.role {
        TransferRole::Sender => sockopt::send_queue_bytes(socket),
        TransferRole::Receiver => sockopt::receive_queue_bytes(socket),
    };
    let tcp = match socket {
        DataSocket::Tcp(socket) => {
            if shared.limits_window() {
                // If this fails, the samples show the window.
                let _ = sockets::limit_window(socket, &shared.spec.plan);
            }
            tcp_info::read_tcp_info(socket).ok().map(|info| info.reading)
        }
        DataSocket::Udp(_) => None,
    };
    StreamSample {
        at_us,
        bytes,
        blocked_us,
        queue_bytes: queue.ok(),
        tcp,
        ..StreamSample::default()
    }
}

/// Takes a reading in the stream's thread, between two calls, if one is due.
pub(super) fn sample_if_due(shared: &EngineShared, stream: &StreamState, now_ns: u64) {
    stream.sample_request.fulfil_if_due(now_ns, || read_stream(shared, stream));
}

/// The request for a reading of one stream, and the reading.
#[derive(Debug)]
pub(super) struct SampleRequest {
    due_ns: AtomicU64,
    answer: Mutex<Option<StreamSample>>,
}

impl SampleRequest {
    pub fn new() -> SampleRequest {
        SampleRequest { due_ns: AtomicU64::new(NEVER_NS), answer: Mutex::default() }
    }

    /// Requests a reading at `due_ns` or soon after. Called by the sampler.
    pub fn request(&self, due_ns: u64) {
        self.due_ns.store(due_ns, Relaxed);
    }

    /// Returns the reading taken since the request, and cancels the request.
    pub fn take_reading(&self) -> Option<StreamSample> {
        let mut answer = self.answer.lock();
        self.due_ns.store(NEVER_NS, Relaxed);
        answer.take()
    }

    fn fulfil_if_due(&self, now_ns: u64, reading: impl FnOnce() -> StreamSample) {
        if now_ns < self.due_ns.load(Relaxed) {
            return;
        }
        let mut answer = self.answer.lock();
        if self.due_ns.swap(NEVER_NS, Relaxed) != NEVER_NS {
            *answer = Some(reading());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_us: u64) -> StreamSample {
        StreamSample { at_us, ..StreamSample::default() }
    }

    #[test]
    fn a_question_is_answered_once_when_it_is_due_and_one_that_nobody_waits_for_is_not() {
        let asked = SampleRequest::new();
        asked.fulfil_if_due(5, || unreachable!("nobody asked"));
        asked.request(10);
        asked.fulfil_if_due(9, || unreachable!("not yet"));
        asked.fulfil_if_due(10, || reading(1));
        asked.fulfil_if_due(11, || unreachable!("answered already"));
        assert_eq!(asked.take_reading().map(|it| it.at_us), Some(1));
        asked.request(20);
        assert!(asked.take_reading().is_none(), "the thread slept");
        asked.fulfil_if_due(21, || unreachable!("the sampler has read by itself"));
    }
}
