//! When does a host that is interrupted now and then get its packets?
//!
//! The first packet of a batch starts a timer; what comes until it ends comes up together. So the
//! first has waited longest, and the last hardly at all. Source: interrupt moderation of network
//! cards (Prasad, Jain, Dovrolis 2004). Wrong when: a card also counts packets, or adapts.

use super::Nanos;
use super::link::nanos;
use super::unit::Unit;
use std::collections::VecDeque;
use std::time::Duration;

pub(super) struct Batch {
    period: Nanos,
    ends: Nanos,
    waiting: VecDeque<Unit>,
}

impl Batch {
    /// `None`: packets come up one by one.
    pub fn new(period: Duration) -> Option<Box<Batch>> {
        (!period.is_zero()).then(|| {
            Box::new(Batch {
                period: nanos(period),
                ends: 0,
                waiting: VecDeque::new(),
            })
        })
    }

    /// Takes in a unit that has arrived.
    pub fn take_in(&mut self, unit: Unit) {
        if self.waiting.is_empty() {
            self.ends = unit.until.saturating_add(self.period);
        }
        let wait = self.ends.saturating_sub(unit.until);
        self.waiting.push_back(unit.later(wait));
    }

    /// The next unit of a batch whose time has come.
    pub fn give_up(&mut self) -> Option<Unit> {
        self.waiting.pop_front()
    }

    /// When units come up; `None`: none waits.
    pub fn due(&self) -> Option<Nanos> {
        (!self.waiting.is_empty()).then_some(self.ends)
    }
}
