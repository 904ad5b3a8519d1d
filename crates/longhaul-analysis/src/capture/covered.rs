//! Which bytes of a TCP direction have been seen, by sequence number?
//!
//! Sequence numbers wrap around; they are taken relative to the first one, on a line of 64 bits,
//! each as near as can be to the highest seen. Holes are few on real paths: beyond a bound the
//! oldest is forgotten, as if its bytes had been there.
//!
//! Source: RFC 9293, section 3.4. Units: bytes. Error: none within 2 GiB of the highest byte.
//! Wrong when: more than [`MOST_HOLES`] holes stand open at once.

use std::collections::VecDeque;

const MOST_HOLES: usize = 1024;

/// Bytes that were not seen, with what was known when they were found missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hole {
    from: u64,
    to: u64,
    /// When a later byte was seen, and that packet's timestamp.
    pub at_ns: u64,
    pub stamp: Option<u32>,
}

/// What a packet brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Brought {
    /// Bytes behind the highest seen so far.
    pub fresh: u64,
    /// Bytes in holes, and the first of these holes.
    pub filled: u64,
    pub hole: Option<Hole>,
    /// Bytes that were there already.
    pub again: u64,
    /// Its end on the line.
    pub to: u64,
}

/// The bytes of one direction.
#[derive(Debug, Clone, Default)]
pub(super) struct Covered {
    /// Sequence number of place 0, which lies well inside the line.
    origin: Option<u32>,
    highest: u64,
    holes: VecDeque<Hole>,
    pub unique: u64,
}

/// Where the first byte lies, so that earlier ones have room.
const START: u64 = 1 << 40;

impl Covered {
    /// The place of a sequence number on the line; the first one asked for lies at the start.
    pub fn place(&mut self, sequence: u32) -> u64 {
        let origin = *self.origin.get_or_insert(sequence);
        if self.highest == 0 {
            self.highest = START;
        }
        let of_highest = origin.wrapping_add(self.highest.wrapping_sub(START) as u32);
        let step = sequence.wrapping_sub(of_highest).cast_signed();
        self.highest.saturating_add_signed(i64::from(step))
    }

    /// The same for what the other side acknowledges; `None` as long as nothing was seen here.
    pub fn known_place(&mut self, sequence: u32) -> Option<u64> {
        self.origin?;
        Some(self.place(sequence))
    }

    /// The end of the highest byte seen.
    pub fn highest(&self) -> Option<u64> {
        self.origin.map(|_| self.highest.max(START))
    }

    /// A packet of `length` bytes of sequence space.
    pub fn take(&mut self, sequence: u32, length: u64, at_ns: u64, stamp: Option<u32>) -> Brought {
        let from = self.place(sequence);
        let to = from + length;
        let mut brought = Brought {
            fresh: to.saturating_sub(from.max(self.highest)),
            to,
            ..Brought::default()
        };
        if from > self.highest {
            self.open(Hole {
                from: self.highest,
                to: from,
                at_ns,
                stamp,
            });
        }
        if from < self.highest {
            self.fill((from, to), &mut brought);
        }
        brought.again = length - brought.fresh - brought.filled;
        self.highest = self.highest.max(to);
        self.unique += brought.fresh + brought.filled;
        brought
    }

    fn open(&mut self, hole: Hole) {
        if self.holes.len() >= MOST_HOLES {
            self.holes.pop_front();
        }
        self.holes.push_back(hole);
    }

    fn fill(&mut self, (from, to): (u64, u64), brought: &mut Brought) {
        if self.holes.is_empty() {
            return;
        }
        let mut left = VecDeque::with_capacity(self.holes.len());
        for hole in self.holes.drain(..) {
            let (start, end) = (hole.from.max(from), hole.to.min(to));
            if start >= end {
                left.push_back(hole);
                continue;
            }
            brought.filled += end - start;
            brought.hole.get_or_insert(hole);
            let before = Hole { to: start, ..hole };
            let behind = Hole { from: end, ..hole };
            left.extend([before, behind].into_iter().filter(|it| it.from < it.to));
        }
        left.truncate(MOST_HOLES);
        self.holes = left;
    }

    /// Bytes below `place` that were never seen.
    pub fn unseen_below(&self, place: u64) -> u64 {
        let inside = |hole: &Hole| hole.to.min(place).saturating_sub(hole.from);
        let holes: u64 = self.holes.iter().map(inside).sum();
        let beyond = self
            .highest()
            .map_or(0, |highest| place.saturating_sub(highest));
        holes + beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_open_fill_and_what_was_there_is_seen_again() {
        let mut covered = Covered::default();
        let near_wrap = u32::MAX - 149;
        let mut take = |step: u32, length| {
            let it = covered.take(near_wrap.wrapping_add(step), length, 0, None);
            (it.fresh, it.filled, it.again)
        };
        assert_eq!(take(0, 100), (100, 0, 0));
        assert_eq!(
            take(300, 100),
            (100, 0, 0),
            "over a hole, and around the end of numbers"
        );
        assert_eq!(take(150, 50), (0, 50, 0), "into the middle of it");
        assert_eq!(take(50, 100), (0, 50, 50), "half of it is new");
        assert_eq!(take(0, 400), (0, 100, 300));
        assert_eq!(take(390, 20), (10, 0, 10));
        assert_eq!(covered.unique, 410);
        let highest = covered.highest().expect("seen");
        assert_eq!(covered.unseen_below(highest + 5), 5);
    }

    #[test]
    fn holes_are_bounded() {
        let mut covered = Covered::default();
        for number in 0..100_000_u32 {
            covered.take(number.wrapping_mul(20), 10, 0, None);
        }
        assert!(covered.holes.len() <= MOST_HOLES);
    }
}
