//! Bounded queues between the stages of a copy, and the flag that stops all threads.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which waiting threads notice a halt.
pub(super) const HALT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Stops every thread of one end of a copy, and keeps the reason.
#[derive(Debug, Default)]
pub(super) struct CopyHalt {
    is_halted: AtomicBool,
    first: Mutex<Option<CopyFailure>>,
}

/// Reason why one end of a copy failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyFailure {
    pub what: String,
    /// True if the peer or the network failed, not this end's files.
    pub lost: bool,
}

impl CopyHalt {
    pub fn is_set(&self) -> bool {
        self.is_halted.load(Ordering::Relaxed)
    }

    /// Stops all threads; the first reason is kept.
    pub fn fail(&self, what: impl Into<String>) {
        self.record(what.into(), false);
        self.stop();
    }

    /// Like `fail`, for a failure of the peer or the network.
    pub fn fail_lost(&self, what: impl Into<String>) {
        self.record(what.into(), true);
        self.stop();
    }

    /// Stops all threads without a reason.
    pub fn stop(&self) {
        self.is_halted.store(true, Ordering::Relaxed);
    }

    /// Records a failure of the peer without stopping: data in transit may still arrive.
    pub fn record_lost(&self, what: impl Into<String>) {
        self.record(what.into(), true);
    }

    fn record(&self, what: String, lost: bool) {
        let mut first = self.first.lock();
        if first.is_none() && !self.is_set() {
            *first = Some(CopyFailure { what, lost });
        }
    }

    pub fn failure(&self) -> Option<CopyFailure> {
        self.first.lock().clone()
    }
}

#[derive(Debug)]
pub(super) struct StageQueue<T> {
    state: Mutex<QueueState<T>>,
    filled: Condvar,
    emptied: Condvar,
    /// True if the queue is a stack.
    newest_first: bool,
}

#[derive(Debug)]
struct QueueState<T> {
    items: VecDeque<T>,
    most: usize,
    /// Threads that may still push items.
    producers: usize,
}

impl<T> StageQueue<T> {
    /// Creates a queue without space and producers, which are added by [`StageQueue::extend`] and
    /// [`StageQueue::add_producer`].
    pub fn new() -> StageQueue<T> {
        StageQueue {
            state: Mutex::new(QueueState { items: VecDeque::new(), most: 0, producers: 0 }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            newest_first: false,
        }
    }

    /// Creates a pool of reusable items, which never ends: the one used last is still in a core's
    /// cache.
    pub fn pool() -> StageQueue<T> {
        let pool = StageQueue { newest_first: true, ..StageQueue::new() };
        pool.add_producer();
        pool
    }

    /// Adds space for so many items.
    pub fn extend(&self, items: usize) {
        self.state.lock().most += items;
        self.emptied.notify_all();
    }

    /// Adds a producer; the queue ends when each of them has dropped its guard.
    pub fn add_producer(&self) {
        self.state.lock().producers += 1;
    }

    /// Waits for space and pushes an item; returns false after a halt.
    pub fn push(&self, item: T, halt: &CopyHalt) -> bool {
        let mut held = self.state.lock();
        while held.items.len() >= held.most && !halt.is_set() {
            self.emptied.wait_for(&mut held, HALT_POLL_INTERVAL);
        }
        if halt.is_set() {
            return false;
        }
        held.items.push_back(item);
        drop(held);
        self.filled.notify_one();
        true
    }

    /// Waits for an item; returns `None` after a halt, or if no more will come.
    pub fn pop(&self, halt: &CopyHalt) -> Option<T> {
        let mut held = self.state.lock();
        loop {
            if halt.is_set() {
                return None;
            }
            let item =
                if self.newest_first { held.items.pop_back() } else { held.items.pop_front() };
            if item.is_some() {
                drop(held);
                self.emptied.notify_one();
                return item;
            }
            if held.producers == 0 {
                return None;
            }
            self.filled.wait_for(&mut held, HALT_POLL_INTERVAL);
        }
    }

    /// Returns the guard of a producer that was added before.
    pub fn producer(&self) -> ProducerGuard<'_, T> {
        ProducerGuard(self)
    }
}

/// One of the producers of a queue, until it is dropped.
pub(super) struct ProducerGuard<'a, T>(&'a StageQueue<T>);

impl<T> Drop for ProducerGuard<'_, T> {
    fn drop(&mut self) {
        self.0.state.lock().producers -= 1;
        self.0.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_before_the_end() {
        let (queue, halt) = (StageQueue::new(), CopyHalt::default());
        queue.extend(2);
        queue.add_producer();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _producer = queue.producer();
                for number in 0..100 {
                    assert!(queue.push(number, &halt));
                }
            });
            let mut seen = Vec::new();
            while let Some(number) = queue.pop(&halt) {
                seen.push(number);
            }
            assert_eq!(seen, (0..100).collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_halt_frees_whoever_waits_and_the_first_reason_stands() {
        let (queue, halt) = (StageQueue::<u8>::pool(), CopyHalt::default());
        queue.extend(1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.pop(&halt));
            halt.fail_lost("gone");
            halt.fail("later");
            assert_eq!(waits.join().expect("no panic"), None);
        });
        let trouble = halt.failure().expect("a reason");
        assert_eq!((trouble.what.as_str(), trouble.lost), ("gone", true));
        assert!(!queue.push(1, &halt));
    }
}
