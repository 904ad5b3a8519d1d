//! Tracks the bytes seen of a TCP direction, by sequence number.
//!
//! Sequence numbers wrap around; they are extended to 64 bits relative to the first one, each as
//! close as possible to the highest seen. Real paths have few holes: beyond a limit the oldest is
//! dropped, as if its bytes had been seen.
//!
//! Source: RFC 9293, section 3.4. Units: bytes. Error: none within 2 GiB of the highest byte.
//! Wrong when: more holes are open at once than the limit of 1024.
//!
//! # Variety of payloads
//!
//! Checks that payload differs from packet to packet, as rule 6 of the Land Speed Record requires.
//!
//! Compares the first bytes of each new payload. Packets with fewer captured bytes are skipped: a
//! short payload always differs from a long one.
//!
//! Source: rule 6 as the submissions quote it. Units: packets. Error: none for what is compared.
//! Wrong when: payloads differ only after their first bytes, or there are more than 65536 distinct
//! heads (then only the first packets are compared).

use longhaul_model::decoded_packet::DecodedPacket;
use longhaul_model::report::v1::capture::PayloadVariety;
use std::collections::{HashMap, VecDeque};

const MAX_HOLES: usize = 1024;

/// Missing bytes, and the packet that revealed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SequenceHole {
    from: u64,
    to: u64,
    /// The time and the TCP timestamp of the packet that showed a later byte.
    pub at_ns: u64,
    pub stamp: Option<u32>,
}

/// The contribution of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SegmentCoverage {
    /// Bytes above the highest seen so far.
    pub fresh: u64,
    /// Bytes that fill holes, and the first of these holes.
    pub filled: u64,
    pub hole: Option<SequenceHole>,
    /// Bytes seen before.
    pub again: u64,
    /// The extended sequence number after its last byte.
    pub to: u64,
}

/// The bytes seen of one direction.
#[derive(Debug, Clone, Default)]
pub(super) struct SequenceCoverage {
    /// The sequence number that maps to `START`.
    origin: Option<u32>,
    highest: u64,
    holes: VecDeque<SequenceHole>,
}

/// The position of the first byte, which leaves room for earlier ones.
const START: u64 = 1 << 40;

impl SequenceCoverage {
    /// Returns the extended position of a sequence number; the first one is at `START`.
    pub fn position(&mut self, sequence: u32) -> u64 {
        let origin = *self.origin.get_or_insert(sequence);
        if self.highest == 0 {
            self.highest = START;
        }
        let of_highest = origin.wrapping_add(self.highest.wrapping_sub(START) as u32);
        let step = sequence.wrapping_sub(of_highest).cast_signed();
        self.highest.saturating_add_signed(i64::from(step))
    }

    /// Returns the position of an acknowledged number; `None` before the first packet.
    pub fn known_position(&mut self, sequence: u32) -> Option<u64> {
        self.origin?;
        Some(self.position(sequence))
    }

    /// Returns the end of the highest byte seen.
    pub fn highest(&self) -> Option<u64> {
        self.origin.map(|_| self.highest.max(START))
    }

    /// Adds a packet with `length` bytes of sequence space.
    pub fn add_segment(
        &mut self,
        sequence: u32,
        length: u64,
        at_ns: u64,
        stamp: Option<u32>,
    ) -> SegmentCoverage {
        let from = self.position(sequence);
        let to = from + length;
        let mut brought = SegmentCoverage {
            fresh: to.saturating_sub(from.max(self.highest)),
            to,
            ..SegmentCoverage::default()
        };
        if from > self.highest {
            self.open_hole(SequenceHole { from: self.highest, to: from, at_ns, stamp });
        }
        if from < self.highest {
            self.fill_holes(from, to, &mut brought);
        }
        brought.again = length - brought.fresh - brought.filled;
        self.highest = self.highest.max(to);
        brought
    }

    fn open_hole(&mut self, hole: SequenceHole) {
        if self.holes.len() >= MAX_HOLES {
            self.holes.pop_front();
        }
        self.holes.push_back(hole);
    }

    fn fill_holes(&mut self, from: u64, to: u64, brought: &mut SegmentCoverage) {
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
            let before = SequenceHole { to: start, ..hole };
            let behind = SequenceHole { from: end, ..hole };
            left.extend([before, behind].into_iter().filter(|it| it.from < it.to));
        }
        left.truncate(MAX_HOLES);
        self.holes = left;
    }

    /// Returns the number of bytes below `position` that were never seen.
    pub fn unseen_below(&self, place: u64) -> u64 {
        let inside = |hole: &SequenceHole| hole.to.min(place).saturating_sub(hole.from);
        let holes: u64 = self.holes.iter().map(inside).sum();
        let beyond = self.highest().map_or(0, |highest| place.saturating_sub(highest));
        holes + beyond
    }
}

/// The length of the head that the decoder hashes; shorter payloads are skipped.
const COMPARED_BYTES: u32 = 64;
const MAX_KNOWN_HEADS: usize = 1 << 16;

#[derive(Debug, Clone, Default)]
pub(super) struct PayloadHeads {
    packets: u64,
    heads: HashMap<u64, u64>,
}

impl PayloadHeads {
    pub fn add_packet(&mut self, packet: &DecodedPacket) {
        let Some(head) = packet.payload.filter(|head| head.bytes >= COMPARED_BYTES) else {
            return;
        };
        if self.heads.len() < MAX_KNOWN_HEADS {
            self.packets += 1;
            *self.heads.entry(head.digest).or_default() += 1;
        }
    }

    pub fn finish(self) -> Option<PayloadVariety> {
        let most_repeated_packets = self.heads.values().copied().max()?;
        // A single packet has nothing to be compared with.
        (self.packets > 1).then_some(PayloadVariety {
            packets: self.packets,
            compared_bytes: COMPARED_BYTES,
            distinct_packets: self.heads.len() as u64,
            most_repeated_packets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_open_fill_and_what_was_there_is_seen_again() {
        let mut covered = SequenceCoverage::default();
        let near_wrap = u32::MAX - 149;
        let mut take = |step: u32, length| {
            let it = covered.add_segment(near_wrap.wrapping_add(step), length, 0, None);
            (it.fresh, it.filled, it.again)
        };
        assert_eq!(take(0, 100), (100, 0, 0));
        assert_eq!(take(300, 100), (100, 0, 0), "over a hole, and around the end of numbers");
        assert_eq!(take(150, 50), (0, 50, 0), "into the middle of it");
        assert_eq!(take(50, 100), (0, 50, 50), "half of it is new");
        assert_eq!(take(0, 400), (0, 100, 300));
        assert_eq!(take(390, 20), (10, 0, 10));
        let highest = covered.highest().expect("seen");
        assert_eq!(covered.unseen_below(highest + 5), 5);
    }

    #[test]
    fn holes_are_bounded() {
        let mut covered = SequenceCoverage::default();
        for number in 0..100_000_u32 {
            covered.add_segment(number.wrapping_mul(20), 10, 0, None);
        }
        assert!(covered.holes.len() <= MAX_HOLES);
    }
}
