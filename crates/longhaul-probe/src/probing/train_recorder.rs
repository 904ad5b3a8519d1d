//! Records the receive times of the expected trains, by packet.
//!
//! The kernel stamps packets with the wall clock; the offset read before a train's first packet
//! converts the times to the monotonic clock. The offset read after its last packet shows whether
//! the clock was set in between.

use super::ProbeDatagramHeader;
use crate::wire::{PacketTimes, ReceivedTrain, ReceivedTrains};
use longhaul_model::report::v1::available::TrainPlan;
use std::time::Duration;

/// The arrival of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct DatagramArrival {
    /// Kernel timestamp (wall clock).
    pub kernel: Option<Duration>,
    /// Monotonic time at which this program read it.
    pub read_ns: u64,
    /// Total number of datagrams dropped by the kernel.
    pub overflowed: Option<u32>,
}

/// An expected train.
#[derive(Debug)]
struct ExpectedTrain {
    index: u32,
    /// Monotonic receive times, by packet.
    times: Vec<Option<u64>>,
    received: usize,
    offset_before: Option<i64>,
    offset_after: Option<i64>,
    overflowed: bool,
}

/// The expected trains.
#[derive(Debug, Default)]
pub struct TrainRecorder {
    trains: Vec<ExpectedTrain>,
    offset_ns: i64,
    /// Trains with packets since the last reading of the clocks.
    awaiting_offset: Vec<usize>,
    overflowed: Option<u32>,
    by_user: bool,
}

impl TrainRecorder {
    /// Expects these trains, already validated, and forgets earlier ones.
    pub fn arm(&mut self, trains: &[TrainPlan], offset_ns: i64) {
        self.offset_ns = offset_ns;
        self.awaiting_offset.clear();
        let awaited = trains.iter().map(|train| ExpectedTrain {
            index: train.index,
            times: vec![None; train.packets as usize],
            received: 0,
            offset_before: None,
            offset_after: None,
            overflowed: false,
        });
        self.trains = awaited.collect();
    }

    /// Records a datagram of a train; ignores strays and duplicates.
    pub fn record(&mut self, header: &ProbeDatagramHeader, arrival: DatagramArrival) {
        let dropped = arrival.overflowed.unwrap_or(0) > self.overflowed.unwrap_or(0);
        self.overflowed = arrival.overflowed.or(self.overflowed);
        let Some(place) = self.trains.iter().position(|t| t.index == header.train) else {
            return;
        };
        let offset = self.offset_ns;
        let train = &mut self.trains[place];
        train.overflowed |= dropped;
        let Some(slot) = train.times.get_mut(header.index as usize) else {
            return;
        };
        if slot.is_some() {
            return;
        }
        train.offset_before.get_or_insert(offset);
        let before = train.offset_before.unwrap_or(offset);
        self.by_user |= arrival.kernel.is_none();
        *slot = Some(arrival.monotonic_ns(before));
        train.received += 1;
        if self.awaiting_offset.last() != Some(&place) {
            self.awaiting_offset.push(place);
        }
    }

    /// Returns whether packets have arrived since the last reading of the clocks.
    pub fn needs_clock_reading(&self) -> bool {
        !self.awaiting_offset.is_empty()
    }

    /// Records the clocks' offset after the packets received so far.
    pub fn record_clock_offset(&mut self, offset_ns: i64) {
        for place in self.awaiting_offset.drain(..) {
            self.trains[place].offset_after = Some(offset_ns);
        }
        self.offset_ns = offset_ns;
    }

    /// Returns whether every packet of every train has arrived.
    pub fn is_complete(&self) -> bool {
        let complete = |train: &ExpectedTrain| train.received == train.times.len();
        self.trains.iter().all(complete)
    }

    /// Returns the recorded trains and expects none any more.
    pub fn take_received(&mut self) -> ReceivedTrains {
        let seen = std::mem::take(&mut self.trains).into_iter();
        // The kernel reports no count as long as it has dropped none.
        let overflowed = Some(u64::from(self.overflowed.unwrap_or(0)));
        ReceivedTrains {
            clock: if self.by_user { "user" } else { "kernel" }.to_owned(),
            trains: seen.map(ExpectedTrain::into_received).collect(),
            overflowed,
        }
    }
}

impl ExpectedTrain {
    fn into_received(self) -> ReceivedTrain {
        let step = self
            .offset_before
            .zip(self.offset_after)
            .map(|(before, after)| after.saturating_sub(before));
        ReceivedTrain {
            index: self.index,
            times: PacketTimes::encode(&self.times),
            clock_step_ns: step,
            overflowed: self.overflowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probing::DatagramKind;
    use longhaul_model::report::v1::available::{TrainPurpose, TrainSchedule};
    use proptest::prelude::*;

    fn trains(packets: &[u32]) -> Vec<TrainPlan> {
        let plan = |(index, packets): (usize, &u32)| TrainPlan {
            index: index as u32,
            purpose: TrainPurpose::Burst,
            packets: *packets,
            packet_bytes: 1500,
            schedule: TrainSchedule::BackToBack,
            pause_us: 0,
        };
        packets.iter().enumerate().map(plan).collect()
    }

    fn header(train: u32, index: u32) -> ProbeDatagramHeader {
        ProbeDatagramHeader {
            kind: DatagramKind::Train,
            session: 7,
            train,
            index,
            sent_ns: 0,
            there_received_ns: 0,
            there_sent_ns: 0,
        }
    }

    fn at(wall_ns: u64) -> DatagramArrival {
        DatagramArrival {
            kernel: Some(Duration::from_nanos(wall_ns)),
            read_ns: 0,
            overflowed: None,
        }
    }

    #[test]
    fn a_clock_that_is_set_in_a_train_shows_and_the_next_train_is_clean() {
        let mut recorder = TrainRecorder::default();
        recorder.arm(&trains(&[2, 1]), 1000);
        recorder.record(&header(0, 0), at(1500));
        recorder.record_clock_offset(1000);
        // The clock is set by 50 us.
        recorder.record(&header(0, 1), at(51_700));
        recorder.record_clock_offset(51_000);
        recorder.record(&header(1, 0), at(51_900));
        recorder.record_clock_offset(51_000);
        assert!(recorder.is_complete());
        let seen = recorder.take_received();
        let steps: Vec<_> = seen.trains.iter().map(|t| t.clock_step_ns).collect();
        assert_eq!(steps, [Some(50_000), Some(0)]);
        let times = seen.trains[1].times.decode();
        assert_eq!(times, Some(vec![Some(900)]));
    }

    #[test]
    fn lost_and_repeated_datagrams_are_told_apart() {
        let mut recorder = TrainRecorder::default();
        recorder.arm(&trains(&[3]), 0);
        recorder.record(&header(0, 2), at(30));
        recorder.record(&header(0, 2), at(40));
        recorder.record(&header(0, 3), at(50));
        recorder.record(&header(5, 0), at(50));
        assert!(!recorder.is_complete());
        let seen = recorder.take_received();
        let times = seen.trains[0].times.decode();
        assert_eq!(times, Some(vec![None, None, Some(30)]));
        assert_eq!(seen.clock, "kernel");
    }

    #[test]
    fn a_full_buffer_marks_the_train_in_which_it_shows() {
        let mut recorder = TrainRecorder::default();
        recorder.arm(&trains(&[1, 1]), 0);
        let count = |count| DatagramArrival { overflowed: Some(count), ..at(5) };
        recorder.record(&header(0, 0), count(0));
        recorder.record(&header(1, 0), count(3));
        let seen = recorder.take_received();
        let marks: Vec<_> = seen.trains.iter().map(|t| t.overflowed).collect();
        assert_eq!((marks, seen.overflowed), (vec![false, true], Some(3)));
    }

    proptest! {
        #[test]
        fn nothing_received_makes_the_recorder_fail(
            came in prop::collection::vec((0..4_u32, 0..20_u32, any::<u64>(), any::<i64>()), 0..100),
        ) {
            let mut recorder = TrainRecorder::default();
            recorder.arm(&trains(&[10, 1, 3]), 0);
            for (train, index, wall, offset) in came {
                recorder.record(&header(train, index), at(wall));
                recorder.record_clock_offset(offset);
            }
            let seen = recorder.take_received();
            prop_assert_eq!(seen.trains.len(), 3);
        }
    }
}
