//! What passes from one stage of a copy to the next: a bounded queue, and the word that ends all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a halt may go unnoticed by whoever waits.
pub(super) const WAKE: Duration = Duration::from_millis(50);

/// Ends every thread of one end of a copy, and keeps why.
#[derive(Debug, Default)]
pub(super) struct Halt {
    halted: AtomicBool,
    first: Mutex<Option<Trouble>>,
}

/// Why an end of a copy could not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub what: String,
    /// The peer, or the network to it, is at fault: not this end's files.
    pub lost: bool,
}

impl Halt {
    pub fn is_set(&self) -> bool {
        self.halted.load(Ordering::Relaxed)
    }

    /// Ends all; the first reason stands.
    pub fn fail(&self, what: impl Into<String>) {
        self.set(what.into(), false);
    }

    /// The same, where the peer or the network failed.
    pub fn lose(&self, what: impl Into<String>) {
        self.set(what.into(), true);
    }

    /// Ends all without a reason of this end's own.
    pub fn stop(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    /// Keeps that the peer failed, and ends nothing: what is still on its way may come.
    pub fn note_lost(&self, what: impl Into<String>) {
        self.note(what.into(), true);
    }

    fn set(&self, what: String, lost: bool) {
        self.note(what, lost);
        self.stop();
    }

    fn note(&self, what: String, lost: bool) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() && !self.is_set() {
            *first = Some(Trouble { what, lost });
        }
    }

    pub fn trouble(&self) -> Option<Trouble> {
        let first = self.first.lock();
        first.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug)]
pub(super) struct Queue<T> {
    held: Mutex<Held<T>>,
    filled: Condvar,
    emptied: Condvar,
    most: usize,
    /// What was put in last comes out first.
    newest_first: bool,
}

#[derive(Debug)]
struct Held<T> {
    items: VecDeque<T>,
    /// Nobody will put anything in any more.
    closed: bool,
    /// Who waits for an item, and who for room: where nobody does, nobody is woken.
    takers: usize,
    givers: usize,
}

impl<T> Queue<T> {
    pub fn new(most: usize) -> Queue<T> {
        Queue {
            held: Mutex::new(Held {
                items: VecDeque::with_capacity(most),
                closed: false,
                takers: 0,
                givers: 0,
            }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            most,
            newest_first: false,
        }
    }

    /// Of things that are used again and again: the one used last is still in a core's cache.
    pub fn pool(most: usize) -> Queue<T> {
        Queue {
            newest_first: true,
            ..Queue::new(most)
        }
    }

    /// Waits for room. False: all is over.
    pub fn push(&self, item: T, halt: &Halt) -> bool {
        let mut held = self.lock();
        while held.items.len() >= self.most && !halt.is_set() {
            held.givers += 1;
            held = wait(&self.emptied, held);
            held.givers -= 1;
        }
        if halt.is_set() {
            return false;
        }
        held.items.push_back(item);
        let wake = held.takers > 0;
        drop(held);
        if wake {
            self.filled.notify_one();
        }
        true
    }

    /// Waits for an item. `None`: no more will come, or all is over.
    pub fn pop(&self, halt: &Halt) -> Option<T> {
        let mut held = self.lock();
        loop {
            if halt.is_set() {
                return None;
            }
            let item = if self.newest_first {
                held.items.pop_back()
            } else {
                held.items.pop_front()
            };
            if item.is_some() {
                let wake = held.givers > 0;
                drop(held);
                if wake {
                    self.emptied.notify_one();
                }
                return item;
            }
            if held.closed {
                return None;
            }
            held.takers += 1;
            held = wait(&self.filled, held);
            held.takers -= 1;
        }
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait<'a, T>(on: &Condvar, held: MutexGuard<'a, Held<T>>) -> MutexGuard<'a, Held<T>> {
    let waited = on.wait_timeout(held, WAKE);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_before_the_end() {
        let (queue, halt) = (Queue::new(2), Halt::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..100 {
                    assert!(queue.push(number, &halt));
                }
                queue.close();
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
        let (queue, halt) = (Queue::<u8>::new(1), Halt::default());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.pop(&halt));
            halt.lose("gone");
            halt.fail("later");
            assert_eq!(waits.join().expect("no panic"), None);
        });
        let trouble = halt.trouble().expect("a reason");
        assert_eq!((trouble.what.as_str(), trouble.lost), ("gone", true));
        assert!(!queue.push(1, &halt));
    }
}
