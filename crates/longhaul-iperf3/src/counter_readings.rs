//! The streams' counters of this end, and the counted part of a test.
//!
//! # Sender observation
//!
//! An observation from the data of one end: those of the other end are derived or absent.
//!
//! iperf3 reports only byte counts for its end. If we send, our kernel knows what the peer has
//! acknowledged, which is taken as received; how the peer spent its time is unknown, so those
//! readings are absent. Wrong when: bytes are acknowledged but never read (a slow reader appears as
//! a small window).

use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, ObservedStream, StreamEnd, StreamSample, ThroughputObservation,
    UdpCounts,
};
use longhaul_probe::engine::{EndRun, EngineResult};
use longhaul_probe::throughput::payload_duration_us;
use std::time::Duration;

/// A reading of all streams; those on which this end receives come first.
#[derive(Debug, Clone, Default)]
pub(crate) struct CounterReading {
    /// Time since payload may flow.
    pub at: Duration,
    pub bytes: Vec<u64>,
    pub datagrams: Vec<UdpCounts>,
}

impl CounterReading {
    pub fn take(
        at: Duration,
        receiver: Option<&EndRun>,
        sender: Option<&EndRun>,
    ) -> CounterReading {
        let mut reading = CounterReading { at, ..CounterReading::default() };
        for run in receiver.into_iter().chain(sender) {
            let progress = run.progress();
            reading.bytes.extend(progress.stream_bytes);
            reading.datagrams.extend(progress.stream_datagrams);
        }
        reading
    }

    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Returns the bytes of the stream with this index; 0 before the first reading.
    fn stream_bytes(&self, row: usize) -> u64 {
        self.bytes.get(row).copied().unwrap_or(0)
    }

    /// Returns the datagrams of the stream with this index.
    pub fn stream_datagrams(&self, row: usize) -> UdpCounts {
        self.datagrams.get(row).copied().unwrap_or_default()
    }
}

/// The counted part of a test, from the end of the omitted time to the last byte.
#[derive(Debug)]
pub(crate) struct CountedSpan {
    pub begin: CounterReading,
    pub end: CounterReading,
    /// The end of the omitted time, until a reading at it has been taken.
    pub due: Option<Duration>,
}

impl CountedSpan {
    pub fn new(omit: Duration) -> CountedSpan {
        CountedSpan {
            begin: CounterReading::default(),
            end: CounterReading::default(),
            due: Some(omit).filter(|omit| !omit.is_zero()),
        }
    }

    /// Begins counting at the first reading after the omitted time.
    pub fn record(&mut self, reading: &CounterReading) {
        if self.due.is_some_and(|due| reading.at >= due) {
            self.due = None;
            self.begin = reading.clone();
        }
    }

    /// Ends counting. A test that ends in its omitted time counts nothing.
    pub fn finish(&mut self, reading: CounterReading) {
        if self.due.take().is_some() {
            self.begin = reading.clone();
        }
        self.end = reading;
    }

    pub fn duration(&self) -> Duration {
        self.end.at.saturating_sub(self.begin.at)
    }

    pub fn counted_bytes(&self, row: usize) -> u64 {
        let end = self.end.stream_bytes(row);
        end.saturating_sub(self.begin.stream_bytes(row))
    }
}

/// Returns the observation of a server's sender, from its data alone.
pub fn observe_sender(own: &EngineResult, idle_rtt: Option<Duration>) -> ThroughputObservation {
    let streams = own.streams.iter().enumerate();
    let streams: Vec<ObservedStream> = streams
        .map(|(index, sender)| ObservedStream {
            index: index as u32,
            sender: sender.clone(),
            receiver: estimate_receiver(sender),
        })
        .collect();
    let receiver = EndObservation {
        bytes: streams.iter().map(|stream| stream.receiver.bytes).sum(),
        ..EndObservation::default()
    };
    ThroughputObservation {
        forward: false,
        elapsed_us: payload_duration_us(&streams),
        idle_rtt_us: idle_rtt.map(|rtt| rtt.as_micros() as u64),
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams,
        ends: BothEnds { sender: own.end.clone(), receiver },
        reverse: None,
    }
}

/// Returns the acknowledged bytes as the receiver's total. It has no samples; the analysis takes
/// the progress from what our kernel saw acknowledged.
fn estimate_receiver(sender: &StreamEnd) -> StreamEnd {
    let acknowledged =
        |sample: &StreamSample| Some((sample.at_us, sample.tcp.as_ref()?.bytes_acked?));
    let last = sender.samples.iter().rev().find_map(acknowledged);
    let (at_us, bytes) = last.unwrap_or((sender.started_us + sender.duration_us, sender.bytes));
    StreamEnd {
        bytes: bytes.min(sender.bytes),
        started_us: sender.started_us,
        duration_us: at_us.saturating_sub(sender.started_us),
        ..StreamEnd::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ms: u64) -> CounterReading {
        CounterReading {
            at: Duration::from_millis(at_ms),
            bytes: vec![at_ms * 10],
            datagrams: vec![UdpCounts::default()],
        }
    }

    #[test]
    fn a_test_that_ends_before_the_first_reading_counts_completely() {
        let mut span = CountedSpan::new(Duration::ZERO);
        span.finish(reading(3));
        assert_eq!(span.counted_bytes(0), 30);
        assert_eq!(span.duration(), Duration::from_millis(3));
    }

    #[test]
    fn counting_begins_after_the_omitted_time() {
        let mut span = CountedSpan::new(Duration::from_secs(1));
        span.record(&reading(900));
        assert!(span.due.is_some());
        span.record(&reading(1010));
        span.record(&reading(1900));
        span.finish(reading(2010));
        assert_eq!(span.counted_bytes(0), 10_000);
        let mut span = CountedSpan::new(Duration::from_secs(1));
        span.finish(reading(900));
        assert_eq!(span.counted_bytes(0), 0);
    }
}
