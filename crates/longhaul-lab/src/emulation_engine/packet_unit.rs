//! The unit that moves through the path: consecutive segments of one packet that travel together.
//!
//! A super-packet (TSO, USO) stays one unit while nothing happens to it; loss, a full queue, a
//! policer or the quantum of a slow link cut it between two segments. Times are those at which the
//! first and the last segment have fully arrived.

use super::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketUnit {
    /// The index in the packet table; every unit with segments holds one reference.
    pub packet: u32,
    pub first: u16,
    pub count: u16,
    pub from: Nanos,
    pub until: Nanos,
}

impl PacketUnit {
    /// Returns the arrival time of segment `index` (0 is this unit's first). Segments between the
    /// first and the last are spaced by their bytes, as on a wire.
    pub fn arrival(&self, index: u16, shape: &SegmentSizes) -> Nanos {
        let index = u64::from(index);
        let after = u64::from(self.count.saturating_sub(1));
        if index >= after || self.from == self.until {
            return self.until;
        }
        let full = u64::from(shape.full);
        let all = (after - 1) * full + shape.last_bytes(self);
        let part = u128::from(self.until - self.from) * u128::from(index * full);
        self.from + (part / u128::from(all.max(1))) as u64
    }

    /// Returns the arrival time of the segment before the last, which a short last one cannot
    /// overtake.
    pub fn second_last_arrival(&self, shape: &SegmentSizes) -> Option<Nanos> {
        (self.count > 1).then(|| self.arrival(self.count - 2, shape))
    }

    /// Splits off the first `n` segments; the caller adds a reference for the new unit.
    pub fn take_front(&mut self, n: u16, shape: &SegmentSizes) -> PacketUnit {
        debug_assert!(n <= self.count, "a unit holds its segments only");
        let mut front = PacketUnit { count: n, ..*self };
        let (end, next) = (n.saturating_sub(1), n.min(self.count.saturating_sub(1)));
        front.until = self.arrival(end, shape);
        self.from = self.arrival(next, shape);
        if front.count == 1 {
            front.from = front.until;
        }
        self.first += n;
        self.count -= n;
        front
    }

    pub fn delayed(self, by: Nanos) -> PacketUnit {
        PacketUnit {
            from: self.from.saturating_add(by),
            until: self.until.saturating_add(by),
            ..self
        }
    }
}

/// The sizes of a packet's segments in IP bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentSizes {
    /// The size of every segment except the last.
    pub full: u32,
    pub last: u32,
    pub segments: u16,
}

impl SegmentSizes {
    pub fn ends_with(&self, unit: &PacketUnit) -> bool {
        u32::from(unit.first) + u32::from(unit.count) == u32::from(self.segments)
    }

    pub fn first_bytes(&self, unit: &PacketUnit) -> u64 {
        u64::from(if unit.count == 1 && self.ends_with(unit) { self.last } else { self.full })
    }

    pub fn last_bytes(&self, unit: &PacketUnit) -> u64 {
        u64::from(if self.ends_with(unit) { self.last } else { self.full })
    }

    pub fn bytes(&self, unit: &PacketUnit) -> u64 {
        match u64::from(unit.count) {
            0 => 0,
            count => (count - 1) * u64::from(self.full) + self.last_bytes(unit),
        }
    }

    /// Returns how many of the unit's segments fit into `room` bytes, each with `overhead` added.
    pub fn count_fitting(&self, unit: &PacketUnit, room: u64, overhead: u64) -> u16 {
        let each = u64::from(self.full) + overhead;
        let mut fit = (room / each.max(1)).min(u64::from(unit.count));
        let but_last = (u64::from(unit.count) - 1) * each;
        if fit + 1 == u64::from(unit.count) && but_last + self.last_bytes(unit) + overhead <= room {
            fit += 1;
        }
        fit as u16
    }
}
