//! Contradictions between the counts of the two ends of a run.
//!
//! The receiver's counts make the goodput, and in a run towards the server the server reports them.
//! It cannot have read more than was written here, nor earlier than it was written. What this check
//! cannot find: a receiver that reports its bytes too late, because a proxy on the path may hold
//! them back.

use super::{ObservedStream, StreamSample, ThroughputObservation};
use crate::units::Bytes;
use std::fmt;

/// The time by which the count of a sender may be late: its write timeout, 50 ms, and what a busy
/// host adds.
const SLACK_US: u64 = 500_000;
/// The drift of two clocks during a run: one in this many.
const DRIFT_DIVISOR: u64 = 1000;
/// The copies of a datagram that a receiver without a count of duplicates may have counted.
const MAX_COPIES: u64 = 2;

/// Counts of the two ends that cannot both be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountContradiction {
    MoreThanSent { stream: u32, received: u64, sent: u64 },
    BeforeSent { stream: u32, at_us: u64, received: u64, sent: u64 },
    Shrinking { stream: u32, at_us: u64 },
}

impl fmt::Display for CountContradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CountContradiction::MoreThanSent { stream, received, sent } => {
                let (received, sent) = (Bytes(received), Bytes(sent));
                write!(f, "stream {stream}: {received} received, but only {sent} sent")
            }
            CountContradiction::BeforeSent { stream, at_us, received, sent } => write!(
                f,
                "stream {stream}: {} received after {} ms, when only {} had been sent",
                Bytes(received),
                at_us / 1000,
                Bytes(sent)
            ),
            CountContradiction::Shrinking { stream, at_us } => {
                let after = at_us / 1000;
                write!(f, "stream {stream}: the received bytes shrink after {after} ms")
            }
        }
    }
}

impl std::error::Error for CountContradiction {}

impl ThroughputObservation {
    /// Checks that nothing was received that had not been sent, in both directions.
    pub fn check_counts(&self) -> Result<(), CountContradiction> {
        self.check_direction()?;
        self.reverse.as_ref().map_or(Ok(()), |reverse| reverse.check_direction())
    }

    /// Checks the direction of this observation, without the reverse one.
    pub fn check_direction(&self) -> Result<(), CountContradiction> {
        let slack_us = SLACK_US
            .saturating_add(self.clock_error_us.unwrap_or(0))
            .saturating_add(self.elapsed_us / DRIFT_DIVISOR);
        self.streams.iter().try_for_each(|stream| check_stream(stream, slack_us))
    }
}

fn check_stream(stream: &ObservedStream, slack_us: u64) -> Result<(), CountContradiction> {
    let ObservedStream { index, sender, receiver } = stream;
    let counts_copies = receiver.udp.is_some_and(|udp| udp.duplicates.is_none());
    let copies = if counts_copies { MAX_COPIES } else { 1 };
    let sent = sender.bytes.saturating_mul(copies);
    if receiver.bytes > sent {
        return Err(CountContradiction::MoreThanSent {
            stream: *index,
            received: receiver.bytes,
            sent: sender.bytes,
        });
    }
    let end_us = receiver.started_us.saturating_add(receiver.duration_us);
    let readings = receiver.samples.iter().map(|it| (it.at_us, it.bytes));
    let mut sent_samples = sender.samples.iter().peekable();
    let (mut before_us, mut before) = (0, 0);
    for (at_us, received) in readings.chain([(end_us, receiver.bytes)]) {
        if received < before && at_us >= before_us {
            return Err(CountContradiction::Shrinking { stream: *index, at_us });
        }
        // A last sample may be later than the last byte.
        (before_us, before) = (before_us.max(at_us), before.max(received));
        let until_us = at_us.saturating_add(slack_us);
        while sent_samples.next_if(|sample| sample.at_us < until_us).is_some() {}
        let known = sent_samples.peek().map_or(sender.bytes, |sample| count_written_bytes(sample));
        if received > known.saturating_mul(copies) {
            return Err(CountContradiction::BeforeSent {
                stream: *index,
                at_us,
                received,
                sent: known,
            });
        }
    }
    Ok(())
}

/// Returns the bytes that the sender had written. The program counts a call when it returns, which on
/// a busy host may be seconds after its bytes were sent; the kernel counts them at once.
fn count_written_bytes(sample: &StreamSample) -> u64 {
    let acknowledged = sample.tcp.as_ref().and_then(|tcp| tcp.bytes_acked);
    let in_kernel =
        acknowledged.zip(sample.queue_bytes).map(|(acked, queue)| acked.saturating_add(queue));
    sample.bytes.max(in_kernel.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::v1::observation::{StreamEnd, StreamSample, TcpReading, UdpCounts};

    /// A stream of 10 s in which both ends count 100 bytes/ms; the receiver is `delay_ms` behind.
    fn stream(delay_ms: u64) -> ObservedStream {
        let end = |delay_ms: u64| StreamEnd {
            bytes: 1_000_000,
            started_us: delay_ms * 1000,
            duration_us: 10_000_000,
            samples: (1..=100)
                .map(|step| StreamSample {
                    at_us: (step * 100 + delay_ms) * 1000,
                    bytes: step * 10_000,
                    ..StreamSample::default()
                })
                .collect(),
            ..StreamEnd::default()
        };
        ObservedStream { index: 3, sender: end(0), receiver: end(delay_ms) }
    }

    #[test]
    fn counts_of_honest_ends_agree_whatever_the_delay_and_the_clocks() {
        for delay_ms in [0, 1, 86, 3000] {
            assert_eq!(check_stream(&stream(delay_ms), SLACK_US), Ok(()));
        }
        let mut ahead = stream(0);
        std::mem::swap(&mut ahead.sender, &mut ahead.receiver);
        assert_eq!(check_stream(&ahead, SLACK_US), Ok(()));
        assert_eq!(
            check_stream(
                &ObservedStream { sender: StreamEnd { samples: vec![], ..ahead.sender }, ..ahead },
                SLACK_US
            ),
            Ok(())
        );
    }

    #[test]
    fn more_than_was_sent_is_a_contradiction() {
        let mut lie = stream(86);
        lie.receiver.bytes *= 1000;
        let found = check_stream(&lie, SLACK_US).expect_err("a lie");
        assert_eq!(found.to_string(), "stream 3: 953.7 MiB received, but only 976.6 KiB sent");
    }

    #[test]
    fn bytes_before_they_were_sent_are_a_contradiction() {
        let mut fast = stream(86);
        fast.receiver.duration_us = 1_000_000;
        fast.receiver.samples.clear();
        assert!(matches!(
            check_stream(&fast, SLACK_US),
            Err(CountContradiction::BeforeSent { at_us: 1_086_000, sent: 160_000, .. })
        ));
        let mut burst = stream(86);
        for sample in &mut burst.receiver.samples[20..] {
            sample.bytes = 1_000_000;
        }
        assert!(check_stream(&burst, SLACK_US).is_err());
    }

    #[test]
    fn bytes_of_a_call_that_returns_late_count_as_written() {
        let mut late = stream(0);
        for sample in &mut late.sender.samples[..60] {
            let tcp = TcpReading { bytes_acked: Some(sample.bytes), ..TcpReading::default() };
            sample.tcp = Some(tcp);
            (sample.queue_bytes, sample.bytes) = (Some(0), 0);
        }
        assert_eq!(check_stream(&late, SLACK_US), Ok(()));
        late.sender.samples[40].tcp = None;
        assert!(check_stream(&late, SLACK_US).is_err());
    }

    #[test]
    fn shrinking_counts_are_a_contradiction() {
        let mut lie = stream(86);
        lie.receiver.samples[50].bytes = 7;
        let at_us = lie.receiver.samples[50].at_us;
        let found = check_stream(&lie, SLACK_US);
        assert_eq!(found, Err(CountContradiction::Shrinking { stream: 3, at_us }));
    }

    #[test]
    fn a_receiver_without_a_count_of_duplicates_may_count_copies() {
        let mut udp = stream(0);
        udp.receiver.bytes = 1_900_000;
        udp.receiver.samples.clear();
        udp.receiver.udp = Some(UdpCounts::default());
        assert_eq!(check_stream(&udp, SLACK_US), Ok(()));
        udp.receiver.udp = Some(UdpCounts { duplicates: Some(0), ..UdpCounts::default() });
        assert!(check_stream(&udp, SLACK_US).is_err());
    }
}
