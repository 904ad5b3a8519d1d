//! The event queue: a heap with one current entry per source of events.
//!
//! A source (the inbox of a station, or the transmitter of a link) has at most one due time.
//! Changing it leaves the old entry in the heap, which is discarded when it reaches the top, so the
//! top is always valid.

use super::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NEVER: Nanos = Nanos::MAX;

#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<(Nanos, u32)>>,
    wanted: Vec<Nanos>,
}

impl EventQueue {
    pub fn with_sources(count: usize) -> EventQueue {
        EventQueue { heap: BinaryHeap::with_capacity(count * 2), wanted: vec![NEVER; count] }
    }

    /// Sets the only due time of `source`; `None` removes it.
    pub fn set(&mut self, source: u32, due: Option<Nanos>) {
        let due = due.unwrap_or(NEVER);
        if self.wanted[source as usize] == due {
            return;
        }
        self.wanted[source as usize] = due;
        if due != NEVER {
            self.heap.push(Reverse((due, source)));
        }
        self.drop_outdated();
    }

    fn drop_outdated(&mut self) {
        while let Some(Reverse((due, source))) = self.heap.peek() {
            if self.wanted[*source as usize] == *due {
                break;
            }
            self.heap.pop();
        }
    }

    pub fn due(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        let Reverse((due, source)) = self.heap.pop()?;
        self.wanted[source as usize] = NEVER;
        self.drop_outdated();
        Some((due, source))
    }
}
