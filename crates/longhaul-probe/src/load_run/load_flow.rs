//! Converts the transfer of a bulk run to the time axis of the probes.

use crate::throughput::{ThroughputOutcome, payload_span};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::load::{LoadFlow, LoadPoint};
use longhaul_model::report::v1::observation::{StreamEnd, ThroughputObservation};
use std::time::{Duration, Instant};

/// Times of the first and last payload at the receiver on the axis, in microseconds.
pub(super) type PayloadSpan = (u64, u64);

/// Returns the receiver's counts; the caller determines what limited the run.
pub(super) fn convert_flow(
    outcome: &ThroughputOutcome,
    axis: Instant,
) -> (LoadFlow, Option<PayloadSpan>) {
    let observation = &outcome.observation;
    let to_axis = |at_us| convert_time(at_us, outcome.origin, axis);
    let receivers: Vec<&StreamEnd> =
        observation.streams.iter().map(|s| &s.receiver).filter(|end| end.bytes > 0).collect();
    let span = payload_span(receivers.iter().copied());
    let span = span.map(|(first, last)| (to_axis(first), to_axis(last)));
    let flow = LoadFlow {
        run_id: None,
        bytes: receivers.iter().map(|end| end.bytes).sum(),
        elapsed_us: observation.elapsed_us,
        limited_by: Limiter::Unknown,
        series: sum_series(&receivers, to_axis),
        retransmits: count_retransmits(observation),
        mss_bytes: observation.streams.first().and_then(|s| s.sender.mss_bytes),
    };
    (flow, span)
}

fn count_retransmits(observation: &ThroughputObservation) -> Option<u64> {
    let last = |end: &StreamEnd| {
        let mut readings = end.samples.iter().rev().filter_map(|s| s.tcp.as_ref());
        readings.next().map(|tcp| tcp.retransmitted_segments)
    };
    observation.streams.iter().map(|s| last(&s.sender)).sum()
}

/// Converts a time of a run, which is relative to `origin`, to the axis of the probes.
fn convert_time(at_us: u64, origin: Instant, axis: Instant) -> u64 {
    let since = (origin + Duration::from_micros(at_us)).saturating_duration_since(axis);
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Sums all streams at the sample times of the stream that has the most.
fn sum_series(receivers: &[&StreamEnd], to_axis: impl Fn(u64) -> u64) -> Vec<LoadPoint> {
    let Some(finest) = receivers.iter().max_by_key(|end| end.samples.len()) else {
        return Vec::new();
    };
    let (begins, ends) = payload_span(receivers.iter().copied()).unwrap_or_default();
    let inside = finest.samples.iter().map(|sample| sample.at_us);
    let mut times: Vec<u64> = inside.filter(|at| (begins..ends).contains(at)).collect();
    times.extend([begins, ends]);
    times.sort_unstable();
    times.dedup();
    let total = |at: u64| receivers.iter().map(|end| interpolate_bytes(end, at)).sum::<f64>();
    let points = times
        .into_iter()
        .map(|at| LoadPoint { at_us: to_axis(at), bytes: total(at).round() as u64 });
    points.collect()
}

/// Interpolates linearly between samples; returns all bytes from the end on.
fn interpolate_bytes(end: &StreamEnd, at_us: u64) -> f64 {
    let stopped = end.started_us.saturating_add(end.duration_us);
    if at_us >= stopped {
        return end.bytes as f64;
    }
    let after = end.samples.partition_point(|s| s.at_us <= at_us);
    let low = after.checked_sub(1).map_or((end.started_us, 0), |i| {
        let at_us = end.samples[i].at_us.max(end.started_us);
        (at_us, end.samples[i].bytes)
    });
    let next = end.samples.get(after).map(|s| (s.at_us, s.bytes));
    let high = next.filter(|n| n.0 < stopped).unwrap_or((stopped, end.bytes));
    if high.0 <= low.0 || at_us <= low.0 {
        return low.1 as f64;
    }
    let part = (at_us - low.0) as f64 / (high.0 - low.0) as f64;
    low.1 as f64 + (high.1 as f64 - low.1 as f64) * part
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::observation::StreamSample;

    fn end(started_us: u64, duration_us: u64, samples: &[(u64, u64)]) -> StreamEnd {
        StreamEnd {
            started_us,
            duration_us,
            bytes: samples.last().map_or(0, |s| s.1),
            samples: samples
                .iter()
                .map(|&(at_us, bytes)| StreamSample { at_us, bytes, ..StreamSample::default() })
                .collect(),
            ..StreamEnd::default()
        }
    }

    #[test]
    fn counts_of_streams_are_added_on_the_axis_and_never_fall() {
        let one = end(100, 300, &[(50, 0), (200, 1000), (300, 2000), (450, 3000)]);
        let two = end(200, 200, &[(200, 0), (400, 500)]);
        let series = sum_series(&[&one, &two], |at_us| at_us + 1000);
        assert_eq!(series.first().map(|p| (p.at_us, p.bytes)), Some((1100, 0)));
        assert_eq!(series.last().map(|p| (p.at_us, p.bytes)), Some((1400, 3500)));
        assert!(series.windows(2).all(|w| w[0].bytes <= w[1].bytes && w[0].at_us < w[1].at_us));
    }

    #[test]
    fn a_run_that_began_before_the_axis_does_not_run_backwards() {
        let origin = Instant::now();
        let axis = origin + Duration::from_micros(500);
        assert_eq!([100, 700].map(|at_us| convert_time(at_us, origin, axis)), [0, 200]);
    }
}
