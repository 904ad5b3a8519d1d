//! Splits a test into intervals for its observer.

use super::server_observer::{DatagramCounts, IntervalReport, StreamInterval, TcpState};
use crate::counter_readings::CounterReading;
use longhaul_model::report::v1::observation::UdpCounts;
use std::time::Duration;

/// The minimum length of an empty last interval, as a fraction of the others.
const MIN_INTERVAL_PARTS: u32 = 10;

/// The kernel's data of a sending stream: retransmits so far, and its state.
pub(crate) type KernelStreamData = Option<(u64, TcpState)>;

/// All counters at one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct CounterSnapshot {
    pub reading: CounterReading,
    /// The kernel data, in the same order as the reading.
    pub kernel: Vec<KernelStreamData>,
}

/// The intervals of one test. The omitted ones end where counting begins.
#[derive(Debug)]
pub(crate) struct IntervalTracker {
    /// `None`: one interval for the whole test.
    every: Option<Duration>,
    omit: Duration,
    omitting: bool,
    /// For each stream in order, set if this end sends.
    sends: Vec<bool>,
    datagrams: bool,
    /// The scheduled start of the current interval.
    due_from: Duration,
    /// The zero of the reported times.
    zero: Duration,
    last: CounterSnapshot,
    any: bool,
}

impl IntervalTracker {
    pub fn new(
        every: Option<Duration>,
        omit: Duration,
        sends: Vec<bool>,
        datagrams: bool,
    ) -> IntervalTracker {
        IntervalTracker {
            every,
            omit,
            omitting: !omit.is_zero(),
            sends,
            datagrams,
            due_from: Duration::ZERO,
            zero: Duration::ZERO,
            last: CounterSnapshot::default(),
            any: false,
        }
    }

    /// Returns the end of the current interval, as time since the start of payload.
    pub fn due(&self) -> Option<Duration> {
        let regular = self.every.map(|every| self.due_from + every);
        let omit = self.omitting.then_some(self.omit);
        regular.into_iter().chain(omit).min()
    }

    /// Returns the interval that ends at `look`, if one is due.
    pub fn record(&mut self, look: CounterSnapshot) -> Option<IntervalReport> {
        let due = self.due().filter(|due| look.reading.at >= *due)?;
        let at = look.reading.at;
        let interval = self.close(look);
        self.due_from = due;
        if self.omitting && at >= self.omit {
            self.omitting = false;
            self.due_from = self.omit;
            self.zero = at;
        }
        Some(interval)
    }

    /// Returns the remaining interval at the end, unless it is short and empty.
    pub fn finish(&mut self, look: CounterSnapshot) -> Option<IntervalReport> {
        let lasted = look.reading.at.saturating_sub(self.last.reading.at);
        let long = self
            .every
            .is_none_or(|every| lasted >= every / MIN_INTERVAL_PARTS);
        let first = !self.any;
        let interval = self.close(look);
        let full = interval.streams.iter().any(|stream| stream.bytes > 0);
        (long || full || first).then_some(interval)
    }

    fn close(&mut self, look: CounterSnapshot) -> IntervalReport {
        let from = self.last.reading.at;
        let streams = (0..self.sends.len()).map(|row| self.stream(row, &look));
        let interval = IntervalReport {
            from: from.saturating_sub(self.zero),
            to: look.reading.at.max(from).saturating_sub(self.zero),
            omitted: self.omitting,
            streams: streams.collect(),
        };
        self.any = true;
        self.last = look;
        interval
    }

    fn stream(&self, row: usize, now: &CounterSnapshot) -> StreamInterval {
        let bytes = |look: &CounterSnapshot| look.reading.bytes.get(row).copied().unwrap_or(0);
        let kernel = |look: &CounterSnapshot| look.kernel.get(row).copied().flatten();
        let sends = self.sends[row];
        let udp =
            |look: &CounterSnapshot| look.reading.datagrams.get(row).copied().unwrap_or_default();
        let before = kernel(&self.last).map_or(0, |(resent, _)| resent);
        StreamInterval {
            sends,
            bytes: bytes(now).saturating_sub(bytes(&self.last)),
            retransmits: kernel(now).map(|(resent, _)| resent.saturating_sub(before)),
            tcp: kernel(now).map(|(_, state)| state),
            datagrams: self
                .datagrams
                .then(|| datagram_growth(sends, udp(&self.last), udp(now))),
        }
    }
}

/// Returns the datagrams since `before`.
pub(crate) fn datagram_growth(sends: bool, before: UdpCounts, now: UdpCounts) -> DatagramCounts {
    let lost = now.lost.saturating_sub(before.lost);
    let came = now.datagrams.saturating_sub(before.datagrams);
    let out = |udp: UdpCounts| udp.out_of_order.unwrap_or(0);
    DatagramCounts {
        count: if sends { came } else { came + lost },
        lost: if sends { 0 } else { lost },
        out_of_order: out(now).saturating_sub(out(before)),
        jitter: now.jitter_ns.filter(|_| !sends).map(Duration::from_nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at_ms: u64, bytes: u64) -> CounterSnapshot {
        CounterSnapshot {
            reading: CounterReading {
                at: Duration::from_millis(at_ms),
                bytes: vec![bytes],
                datagrams: vec![UdpCounts::default()],
            },
            kernel: vec![Some((bytes / 100, TcpState::default()))],
        }
    }

    fn of(every_ms: Option<u64>, omit_ms: u64) -> IntervalTracker {
        let every = every_ms.map(Duration::from_millis);
        IntervalTracker::new(every, Duration::from_millis(omit_ms), vec![true], false)
    }

    fn span(interval: &IntervalReport) -> (u128, u128, u64) {
        let bytes = interval.streams[0].bytes;
        (interval.from.as_millis(), interval.to.as_millis(), bytes)
    }

    #[test]
    fn intervals_keep_their_pace_however_late_somebody_looks() {
        let mut intervals = of(Some(1000), 0);
        assert!(intervals.record(look(900, 100)).is_none());
        let first = intervals.record(look(1030, 1000)).expect("due");
        assert_eq!(span(&first), (0, 1030, 1000));
        assert_eq!(first.streams[0].retransmits, Some(10));
        assert_eq!(intervals.due(), Some(Duration::from_secs(2)));
        let second = intervals.record(look(2000, 1500)).expect("due");
        assert_eq!(span(&second), (1030, 2000, 500));
        assert_eq!(second.streams[0].retransmits, Some(5));
        assert!(
            intervals.finish(look(2050, 1500)).is_none(),
            "short and empty"
        );
    }

    #[test]
    fn a_rest_with_bytes_in_it_is_an_interval_and_so_is_the_only_one() {
        let mut intervals = of(Some(1000), 0);
        intervals.record(look(1000, 10));
        assert!(intervals.finish(look(1001, 11)).is_some());
        assert!(of(Some(1000), 0).finish(look(1, 0)).is_some());
        let mut whole = of(None, 0);
        assert_eq!(whole.due(), None);
        let only = whole.finish(look(5000, 10)).expect("the only one");
        assert_eq!(span(&only), (0, 5000, 10));
    }

    #[test]
    fn what_is_omitted_ends_where_counting_begins_and_times_begin_anew() {
        let mut intervals = of(Some(1000), 1500);
        let first = intervals.record(look(1000, 10)).expect("due");
        let second = intervals
            .record(look(1510, 15))
            .expect("the omitted time is over");
        assert!(first.omitted && second.omitted);
        let third = intervals.record(look(2500, 25)).expect("due");
        assert!(!third.omitted);
        assert_eq!(span(&third), (0, 990, 10));
    }

    #[test]
    fn a_receiver_counts_what_was_sent_to_it_and_a_sender_what_it_sent() {
        let udp = |datagrams, lost| UdpCounts {
            datagrams,
            lost,
            jitter_ns: Some(5),
            ..UdpCounts::default()
        };
        let came = datagram_growth(false, udp(10, 1), udp(19, 3));
        assert_eq!((came.count, came.lost), (11, 2));
        assert_eq!(came.jitter, Some(Duration::from_nanos(5)));
        let went = datagram_growth(true, udp(10, 0), udp(19, 0));
        assert_eq!((went.count, went.lost, went.jitter), (9, 0, None));
    }
}
