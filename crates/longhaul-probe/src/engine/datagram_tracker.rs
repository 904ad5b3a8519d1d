//! The datagram header, and a receiver's account of loss, duplicates, reordering and jitter.
//!
//! The header has 24 bytes, big-endian: magic `LHD1`, stream (u16), flags (u16), sequence (u64),
//! send time in nanoseconds since the sender's zero (u64). The payload follows. A datagram with the
//! flag `LAST` carries no counted payload; its sequence is the number of datagrams sent.
//!
//! Lost: a sequence number that never arrived. Duplicate: one that arrived again. Out of order: one
//! below the highest so far. Jitter: RFC 3550 section 6.4.1, from the kernel's arrival times if
//! available; the two clocks need equal rates, not equal times. Error: a datagram more than 65 536
//! behind the highest counts as a duplicate.

use crate::path::probe_reply::{read_array_at, read_u16_at, read_u32_at};
use longhaul_model::report::v1::observation::{StreamEnd, UdpCounts};
use std::time::Duration;

pub(super) const HEADER_BYTES: usize = 24;
const MAGIC: [u8; 4] = *b"LHD1";
const LAST: u16 = 1;

/// The width of iperf3's datagram counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterWidth {
    /// The upper half of the number is lost.
    Bits32,
    /// Since 3.1, if requested.
    Bits64,
}

/// The datagram format of a run, given by the program at its other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramFormat {
    /// Longhaul's format, described above.
    Longhaul,
    /// Seconds, microseconds and number only, big-endian, as in iperf3: no stream and no end mark,
    /// and the first number is 1.
    Numbered(CounterWidth),
}

impl DatagramFormat {
    pub(super) fn header_bytes(self) -> usize {
        match self {
            DatagramFormat::Longhaul => HEADER_BYTES,
            DatagramFormat::Numbered(CounterWidth::Bits32) => 12,
            DatagramFormat::Numbered(CounterWidth::Bits64) => 16,
        }
    }

    /// Writes `header` to the beginning of `datagram`, which has room for it.
    pub fn write(self, header: DatagramHeader, datagram: &mut [u8]) {
        let width = match self {
            DatagramFormat::Longhaul => return header.write(datagram),
            DatagramFormat::Numbered(width) => width,
        };
        let seconds = (header.sent_ns / 1_000_000_000) as u32;
        let micros = (header.sent_ns % 1_000_000_000 / 1000) as u32;
        let number = header.sequence + 1;
        datagram[..4].copy_from_slice(&seconds.to_be_bytes());
        datagram[4..8].copy_from_slice(&micros.to_be_bytes());
        match width {
            CounterWidth::Bits32 => {
                datagram[8..12].copy_from_slice(&(number as u32).to_be_bytes());
            }
            CounterWidth::Bits64 => datagram[8..16].copy_from_slice(&number.to_be_bytes()),
        }
    }

    /// Returns `None` for a datagram of another format.
    pub fn read(self, datagram: &[u8]) -> Option<DatagramHeader> {
        let width = match self {
            DatagramFormat::Longhaul => return DatagramHeader::read(datagram),
            DatagramFormat::Numbered(width) => width,
        };
        let word = |at| read_u32_at(datagram, at).map(u64::from);
        let number = match width {
            CounterWidth::Bits32 => word(8)?,
            CounterWidth::Bits64 => u64::from_be_bytes(read_array_at(datagram, 8)?),
        };
        Some(DatagramHeader {
            stream: 0,
            last: false,
            sequence: number.checked_sub(1)?,
            sent_ns: word(0)? * 1_000_000_000 + word(4)? * 1000,
        })
    }
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    pub stream: u16,
    /// Set in the end mark; `sequence` is then the number of datagrams sent.
    pub last: bool,
    pub sequence: u64,
    pub sent_ns: u64,
}

impl DatagramHeader {
    /// Writes the header to the beginning of `datagram`, which has room for it.
    pub fn write(self, datagram: &mut [u8]) {
        let flags = if self.last { LAST } else { 0 };
        datagram[0..4].copy_from_slice(&MAGIC);
        datagram[4..6].copy_from_slice(&self.stream.to_be_bytes());
        datagram[6..8].copy_from_slice(&flags.to_be_bytes());
        datagram[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        datagram[16..24].copy_from_slice(&self.sent_ns.to_be_bytes());
    }

    /// Returns `None` for a datagram of another format.
    pub fn read(datagram: &[u8]) -> Option<DatagramHeader> {
        let head: &[u8; HEADER_BYTES] = datagram.first_chunk()?;
        Some(DatagramHeader {
            stream: read_u16_at(head, 4)?,
            last: read_u16_at(head, 6)? & LAST != 0,
            sequence: u64::from_be_bytes(read_array_at(head, 8)?),
            sent_ns: u64::from_be_bytes(read_array_at(head, 16)?),
        })
        .filter(|_| head.starts_with(&MAGIC))
    }
}

const WINDOW: u64 = 1 << 16;

/// The datagrams of one stream that have arrived.
#[derive(Debug)]
pub struct DatagramTracker {
    /// A bitmap of the last [`WINDOW`] sequence numbers.
    seen: Vec<u64>,
    /// One above the highest sequence number so far.
    next: u64,
    arrived: u64,
    out_of_order: u64,
    duplicates: u64,
    /// The number of datagrams that the sender reports.
    total: Option<u64>,
    transit_ns: Option<i128>,
    jitter_ns: f64,
}

impl Default for DatagramTracker {
    fn default() -> DatagramTracker {
        DatagramTracker {
            seen: vec![0; (WINDOW / 64) as usize],
            next: 0,
            arrived: 0,
            out_of_order: 0,
            duplicates: 0,
            total: None,
            transit_ns: None,
            jitter_ns: 0.0,
        }
    }
}

impl DatagramTracker {
    /// Records a datagram; returns whether it is new. `arrived` is a time on any steady clock.
    pub fn record(&mut self, header: DatagramHeader, arrived: Duration) -> bool {
        if header.last {
            self.total = Some(header.sequence);
            return false;
        }
        // A number close to the maximum is damage or an attack, and would overflow the count.
        let Some(after) = header.sequence.checked_add(1) else {
            return false;
        };
        if after > self.next {
            self.clear_up_to(after);
            self.next = after;
        } else if self.is_known(header.sequence) {
            self.duplicates += 1;
            return false;
        } else {
            self.out_of_order += 1;
        }
        self.mark(header.sequence);
        self.arrived += 1;
        self.update_jitter(header.sent_ns, arrived);
        true
    }

    /// Clears the bits for the numbers up to `next`.
    fn clear_up_to(&mut self, next: u64) {
        if next - self.next >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for number in self.next..next {
            let (word, bit) = DatagramTracker::bit_position(number);
            self.seen[word] &= !(1 << bit);
        }
    }

    fn bit_position(sequence: u64) -> (usize, u64) {
        let index = sequence % WINDOW;
        ((index / 64) as usize, index % 64)
    }

    fn is_known(&self, sequence: u64) -> bool {
        let (word, bit) = DatagramTracker::bit_position(sequence);
        self.next - sequence > WINDOW || self.seen[word] >> bit & 1 == 1
    }

    fn mark(&mut self, sequence: u64) {
        let (word, bit) = DatagramTracker::bit_position(sequence);
        self.seen[word] |= 1 << bit;
    }

    fn update_jitter(&mut self, sent_ns: u64, arrived: Duration) {
        let transit = arrived.as_nanos() as i128 - i128::from(sent_ns);
        if let Some(before) = self.transit_ns.replace(transit) {
            let change = (transit - before).unsigned_abs() as f64;
            self.jitter_ns += (change - self.jitter_ns) / 16.0;
        }
    }

    /// Returns whether the sender has sent its end mark.
    pub fn has_end(&self) -> bool {
        self.total.is_some()
    }

    /// Returns whether all sent datagrams have arrived.
    pub fn is_complete(&self) -> bool {
        self.total.is_some_and(|total| self.arrived >= total)
    }

    pub fn udp_counts(&self) -> UdpCounts {
        let expected = self.total.unwrap_or(self.next).max(self.next);
        UdpCounts {
            datagrams: self.arrived,
            lost: expected.saturating_sub(self.arrived),
            out_of_order: Some(self.out_of_order),
            duplicates: Some(self.duplicates),
            jitter_ns: (self.arrived > 1).then_some(self.jitter_ns as u64),
        }
    }
}

/// Corrects a receiver's loss by the sender's count, in case all end marks were lost.
pub fn reconcile_loss(sender: &StreamEnd, receiver: &mut StreamEnd) {
    if let Some(udp) = &mut receiver.udp {
        let sent = sender.calls.unwrap_or(0);
        udp.lost = udp.lost.max(sent.saturating_sub(udp.datagrams));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(sequence: u64) -> DatagramHeader {
        DatagramHeader { stream: 1, last: false, sequence, sent_ns: sequence * 1000 }
    }

    fn account(sequences: &[u64], total: Option<u64>) -> UdpCounts {
        let mut ledger = DatagramTracker::default();
        for &sequence in sequences {
            ledger.record(header(sequence), Duration::from_micros(sequence + 7));
        }
        if let Some(total) = total {
            let last = DatagramHeader { last: true, ..header(total) };
            ledger.record(last, Duration::ZERO);
        }
        ledger.udp_counts()
    }

    #[test]
    fn heads_of_iperf3_are_big_endian_and_as_long_as_their_counter() {
        let header = DatagramHeader {
            stream: 0,
            last: false,
            sequence: 0x1_0000_0002,
            sent_ns: 1_000_002_000,
        };
        let mut bytes = [0xaa; 17];
        DatagramFormat::Numbered(CounterWidth::Bits64).write(header, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0xaa]);
        let narrow = DatagramFormat::Numbered(CounterWidth::Bits32);
        let mut bytes = [0; 12];
        narrow.write(header, &mut bytes);
        assert_eq!(narrow.read(&bytes).map(|header| header.sequence), Some(2));
        assert_eq!(DatagramFormat::Numbered(CounterWidth::Bits64).read(&bytes), None);
    }

    #[test]
    fn lost_late_and_repeated_datagrams_are_told_apart() {
        for (sequences, total, expect) in [
            (&[][..], None, [0, 0, 0, 0]),
            (&[], Some(5), [0, 5, 0, 0]),
            (&[0, 1, 2], Some(3), [3, 0, 0, 0]),
            (&[0, 1, 4], None, [3, 2, 0, 0]),
            (&[0, 1, 4], Some(7), [3, 4, 0, 0]),
            (&[0, 2, 1, 3], Some(4), [4, 0, 1, 0]),
            (&[0, 1, 1, 2, 0], Some(3), [3, 0, 0, 2]),
            (&[0, 200_000, 5], Some(200_001), [2, 199_999, 0, 1]),
        ] {
            let seen = account(sequences, total);
            let seen = [
                seen.datagrams,
                seen.lost,
                seen.out_of_order.expect("counted"),
                seen.duplicates.expect("counted"),
            ];
            assert_eq!(seen, expect, "{sequences:?} of {total:?}");
        }
    }

    #[test]
    fn an_even_stream_has_no_jitter_and_an_uneven_one_has() {
        let even: Vec<u64> = (0..100).collect();
        assert_eq!(account(&even, None).jitter_ns, Some(0));
        let mut ledger = DatagramTracker::default();
        for number in 0..1000_u64 {
            let late = Duration::from_micros(number % 2 * 160);
            ledger.record(header(number), Duration::from_micros(number) + late);
        }
        let jitter = ledger.udp_counts().jitter_ns.expect("a jitter");
        assert!((150_000..=160_000).contains(&jitter), "{jitter} ns");
    }

    proptest! {
        #[test]
        fn a_header_reads_back_as_it_was_written(stream: u16, last: bool, sequence: u64, sent_ns: u64) {
            let header = DatagramHeader { stream, last, sequence, sent_ns };
            let mut datagram = [0; HEADER_BYTES];
            header.write(&mut datagram);
            prop_assert_eq!(DatagramHeader::read(&datagram), Some(header));
        }

        #[test]
        fn a_head_of_iperf3_keeps_number_and_microseconds(sequence in 0..u64::MAX - 1, micros: u32) {
            let header = DatagramHeader { stream: 0, last: false, sequence, sent_ns: u64::from(micros) * 1000 };
            let mut datagram = [0; 16];
            let heads = DatagramFormat::Numbered(CounterWidth::Bits64);
            heads.write(header, &mut datagram);
            prop_assert_eq!(heads.read(&datagram), Some(header));
        }

        #[test]
        fn nothing_received_makes_the_ledger_fail(
            datagrams in prop::collection::vec((any::<u64>(), any::<bool>(), any::<u64>()), 0..200),
        ) {
            let mut ledger = DatagramTracker::default();
            for (sequence, last, sent_ns) in datagrams {
                let sequence = if sent_ns % 3 == 0 { sequence } else { sequence % 1000 };
                ledger.record(DatagramHeader { stream: 0, last, sequence, sent_ns }, Duration::from_nanos(sent_ns));
            }
            ledger.udp_counts();
        }

        #[test]
        fn bytes_of_a_stranger_are_no_header(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            for width in [CounterWidth::Bits32, CounterWidth::Bits64] {
                let _ = DatagramFormat::Numbered(width).read(&bytes);
            }
            prop_assert_eq!(DatagramHeader::read(&bytes), None);
        }
    }
}
