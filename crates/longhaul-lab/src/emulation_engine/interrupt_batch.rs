//! Interrupt coalescing at a host.
//!
//! The first packet of a batch starts a timer; all packets that arrive before it expires are
//! delivered together. So the first has waited longest, and the last hardly at all. Source:
//! interrupt moderation of network cards (Prasad, Jain, Dovrolis 2004). Wrong when: a card also
//! counts packets, or adapts.

use super::Nanos;
use super::emulated_link::to_virtual_nanos;
use super::packet_unit::PacketUnit;
use std::collections::VecDeque;
use std::time::Duration;

pub(super) struct InterruptBatch {
    period: Nanos,
    ends: Nanos,
    waiting: VecDeque<PacketUnit>,
}

impl InterruptBatch {
    /// Returns `None` if packets are delivered one by one.
    pub fn new(period: Duration) -> Option<Box<InterruptBatch>> {
        (!period.is_zero()).then(|| {
            Box::new(InterruptBatch {
                period: to_virtual_nanos(period),
                ends: 0,
                waiting: VecDeque::new(),
            })
        })
    }

    /// Adds a unit that has arrived.
    pub fn push(&mut self, unit: PacketUnit) {
        if self.waiting.is_empty() {
            self.ends = unit.until.saturating_add(self.period);
        }
        let wait = self.ends.saturating_sub(unit.until);
        self.waiting.push_back(unit.delayed(wait));
    }

    /// Removes the next unit of a batch that is due.
    pub fn pop(&mut self) -> Option<PacketUnit> {
        self.waiting.pop_front()
    }

    /// Returns the time at which the batch is due; `None` if it is empty.
    pub fn due(&self) -> Option<Nanos> {
        (!self.waiting.is_empty()).then_some(self.ends)
    }
}
