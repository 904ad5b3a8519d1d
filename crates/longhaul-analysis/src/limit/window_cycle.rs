//! Finds the cycles of the congestion windows: each begins with a loss that reduces the window.
//!
//! Source: retransmits of the sender; without its readings, segments that arrived out of order
//! (`tcpi_rcv_ooopack`). RFC 9438, section 4; RFC 5681, section 3.1. Units: microseconds of the run.
//! Error: the time between two readings.
//! Wrong when: cycles are shorter than two readings, or segments only arrive late.

use super::stream_intervals::SampleInterval;
use longhaul_model::report::v1::observation::{ObservedStream, StreamSample};

/// Retransmits within this many round trips belong to one loss.
const LOSS_TRIPS: u64 = 4;
/// The losses after which cycles follow each other: that of slow start, whose window is not that of the
/// cycles, and those at both ends of one cycle.
const MIN_LOSSES: usize = 3;

/// Returns the times by which the windows of all streams were reduced once more. The first one is mostly
/// that of slow start.
pub fn list_window_losses(
    observed: &[ObservedStream],
    streams: &[Vec<SampleInterval>],
    trip_us: u64,
) -> Vec<u64> {
    let apart_us = LOSS_TRIPS.saturating_mul(trip_us);
    let losses: Vec<Vec<u64>> = observed
        .iter()
        .zip(streams)
        .map(|(stream, intervals)| {
            keep_first_losses(&list_lossy_spans(stream, intervals), apart_us)
        })
        .collect();
    let next = |last: &u64| {
        let firsts = losses.iter().map(|times| times.iter().find(|at| *at > last).copied());
        firsts.collect::<Option<Vec<u64>>>()?.into_iter().max()
    };
    std::iter::successors(Some(0), next).skip(1).collect()
}

/// Returns the start of the first whole cycle after slow start; `None` before its end.
pub fn find_first_cycle_us(losses: &[u64]) -> Option<u64> {
    losses.get(1).copied().filter(|_| losses.len() >= MIN_LOSSES)
}

/// Returns the spans between two readings in which a stream lost segments.
fn list_lossy_spans(stream: &ObservedStream, intervals: &[SampleInterval]) -> Vec<[u64; 2]> {
    if !intervals.is_empty() {
        let lossy = intervals.iter().filter(|it| it.has_retransmits() && !it.draining);
        return lossy.map(|it| [it.from_us, it.to_us]).collect();
    }
    let late = |sample: &StreamSample| sample.tcp.as_ref().and_then(|it| it.out_of_order_segments);
    let pairs = stream.receiver.samples.windows(2).filter(|pair| late(&pair[1]) > late(&pair[0]));
    pairs.map(|pair| [pair[0].at_us, pair[1].at_us]).collect()
}

/// Returns the end of the first of the spans of each loss.
fn keep_first_losses(spans: &[[u64; 2]], apart_us: u64) -> Vec<u64> {
    let chains =
        spans.chunk_by(|[_, end_us], [next_us, _]| *next_us < end_us.saturating_add(apart_us));
    chains.map(|chain| chain[0][1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::observation::StreamEnd;

    const STEP_US: u64 = 200_000;

    /// Intervals of which those of these numbers have retransmits.
    fn lossy(numbers: &[u64]) -> Vec<SampleInterval<'static>> {
        let interval = |number: u64| SampleInterval {
            from_us: number * STEP_US,
            to_us: (number + 1) * STEP_US,
            retransmitted_segments: Some(u64::from(numbers.contains(&number))),
            ..SampleInterval::default()
        };
        (0..50).map(interval).collect()
    }

    #[test]
    fn a_cycle_lasts_until_each_stream_lost_again() {
        let stream = |index: u32| ObservedStream {
            index,
            sender: StreamEnd::default(),
            receiver: StreamEnd::default(),
        };
        let streams = [lossy(&[4, 5, 20, 40]), lossy(&[9, 14, 30])];
        let losses = list_window_losses(&[0, 1].map(stream), &streams, 20_000);
        assert_eq!(losses, [10 * STEP_US, 21 * STEP_US, 41 * STEP_US]);
    }

    #[test]
    fn the_first_cycle_begins_with_the_second_loss() {
        assert_eq!(find_first_cycle_us(&[1, 3]), None);
        assert_eq!(find_first_cycle_us(&[1, 3, 6]), Some(3));
    }
}
