//! Timelines of the bytes that arrived.
//!
//! Turns the cumulative counts of one end into monotonic tracks, and adds up the tracks of all
//! streams over the time in which all of them, or at least half, were alive.
//!
//! Source: the receiver's own counts; without samples (programs other than longhaul), the bytes
//! that its kernel acknowledged (`tcpi_bytes_acked` of the sender), up to its last count. Units:
//! microseconds of the run's common time line, bytes. Error: between samples the count is
//! interpolated linearly.
//! Wrong when: samples are sparser than the changes looked for.

use longhaul_model::report::v1::observation::{ObservedStream, StreamEnd, ThroughputObservation};

/// Bins shorter than this share of the median one are joined to their neighbour: the rate of a very
/// short bin is noise.
const SLIVER_RATIO: f64 = 0.5;

/// The cumulative byte count of one stream at one end.
#[derive(Debug, Clone, Default)]
pub struct ByteTrack {
    points: Vec<(u64, u64)>,
}

impl ByteTrack {
    /// Builds a track from the end's start, samples and last count; drops samples that decrease.
    pub fn of(end: &StreamEnd) -> ByteTrack {
        ByteTrack::from_counts(end.samples.iter().map(|s| (s.at_us, s.bytes)), end)
    }

    /// Returns the bytes of a stream that arrived.
    pub fn of_arrivals(stream: &ObservedStream) -> ByteTrack {
        let (sender, receiver) = (&stream.sender, &stream.receiver);
        if !receiver.samples.is_empty() {
            return ByteTrack::of(receiver);
        }
        let acknowledged = sender.samples.iter();
        let acknowledged =
            acknowledged.filter_map(|s| Some((s.at_us, s.tcp.as_ref()?.bytes_acked?)));
        ByteTrack::from_counts(acknowledged, receiver)
    }

    /// Builds a track of the segments that arrived, in order or not, as bytes: while a lost segment is
    /// repaired, the application reads nothing although the path delivers. Without samples of the receiver,
    /// those that the sender knows to be delivered. `None` if they were not counted.
    fn of_segments(stream: &ObservedStream) -> Option<ByteTrack> {
        let (sender, receiver) = (&stream.sender, &stream.receiver);
        let mss = receiver.mss_bytes.or(sender.mss_bytes).filter(|bytes| *bytes > 0)?;
        let has_receiver = !receiver.samples.is_empty();
        let samples = if has_receiver { &receiver.samples } else { &sender.samples };
        let counts = samples.iter().filter_map(|sample| {
            let tcp = sample.tcp.as_ref()?;
            let arrived = if has_receiver { tcp.data_segments_in } else { tcp.delivered_segments };
            Some((sample.at_us, arrived?.saturating_mul(u64::from(mss))))
        });
        let points = keep_growing_counts(receiver.started_us, counts);
        (points.len() > 1).then_some(ByteTrack { points })
    }

    fn from_counts(samples: impl Iterator<Item = (u64, u64)>, end: &StreamEnd) -> ByteTrack {
        let stopped = end.started_us.saturating_add(end.duration_us);
        let mut raw: Vec<(u64, u64)> = samples.chain([(stopped, end.bytes)]).collect();
        raw.sort_unstable();
        raw.retain(|(at, bytes)| *bytes <= end.bytes && *at <= stopped);
        ByteTrack { points: keep_growing_counts(end.started_us, raw) }
    }

    /// Returns the bytes counted by `at_us`, interpolated linearly between samples.
    pub fn at(&self, at_us: u64) -> f64 {
        interpolate_count(&self.points, |point| *point, at_us)
    }

    /// Returns the time at which so many bytes were counted, interpolated linearly between samples; `None`
    /// before the first sample and after the last one.
    pub fn find_time_us(&self, bytes: u64) -> Option<f64> {
        let after = self.points.partition_point(|point| point.1 < bytes);
        let ((from, low), (to, high)) =
            (*self.points.get(after.checked_sub(1)?)?, *self.points.get(after)?);
        let part = (bytes - low) as f64 / (high - low) as f64;
        Some(from as f64 + (to - from) as f64 * part)
    }

    fn first_us(&self) -> u64 {
        self.points.first().map_or(0, |p| p.0)
    }

    fn last_us(&self) -> u64 {
        self.points.last().map_or(0, |p| p.0)
    }
}

/// Returns the points of time and count from 0 at the start, without those that decrease.
pub fn keep_growing_counts(
    started_us: u64,
    counts: impl IntoIterator<Item = (u64, u64)>,
) -> Vec<(u64, u64)> {
    let mut points = vec![(started_us, 0)];
    for (at, count) in counts {
        let (last_at, last) = points[points.len() - 1];
        if at > last_at && count >= last {
            points.push((at, count));
        }
    }
    points
}

/// Returns the count at `at_us`, interpolated linearly between points of time and count.
pub fn interpolate_count<T>(points: &[T], read: impl Fn(&T) -> (u64, u64), at_us: u64) -> f64 {
    let after = points.partition_point(|point| read(point).0 <= at_us);
    let Some((from, low)) = after.checked_sub(1).map(|i| read(&points[i])) else {
        return 0.0;
    };
    let Some((to, high)) = points.get(after).map(read) else {
        return low as f64;
    };
    let part = (at_us - from) as f64 / (to - from) as f64;
    low as f64 + (high as f64 - low as f64) * part
}

/// Bytes that arrived in one time span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalBin {
    pub from_us: u64,
    pub to_us: u64,
    pub bytes: f64,
}

impl ArrivalBin {
    pub fn seconds(&self) -> f64 {
        self.to_us.saturating_sub(self.from_us) as f64 / 1e6
    }

    pub fn rate_bps(&self) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { self.bytes * 8.0 / seconds } else { 0.0 }
    }
}

/// The minimum share of the time that half of the streams had in which all of them were alive.
pub const TOGETHER_RATIO: f64 = 0.5;

/// The bytes that arrived at the receiver, all streams together, while all of them were alive; or half of
/// them, if a few began late or ended early.
#[derive(Debug, Clone, Default)]
pub struct RunArrivals {
    pub bins: Vec<ArrivalBin>,
    tracks: Vec<ByteTrack>,
    /// The time in which all streams were alive.
    pub together_us: u64,
}

impl RunArrivals {
    pub fn of(observation: &ThroughputObservation) -> RunArrivals {
        let carrying = observation.streams.iter().filter(|s| s.receiver.bytes > 0);
        RunArrivals::of_tracks(carrying.map(ByteTrack::of_arrivals).collect())
    }

    /// Returns the segments that arrived, in order or not; without such counts, the bytes that were
    /// read.
    pub fn of_segments(observation: &ThroughputObservation) -> RunArrivals {
        let carrying = observation.streams.iter().filter(|s| s.receiver.bytes > 0);
        let tracks: Option<Vec<ByteTrack>> = carrying.map(ByteTrack::of_segments).collect();
        tracks.map_or_else(|| RunArrivals::of(observation), RunArrivals::of_tracks)
    }

    fn of_tracks(tracks: Vec<ByteTrack>) -> RunArrivals {
        let mut first: Vec<u64> = tracks.iter().map(ByteTrack::first_us).collect();
        let mut last: Vec<u64> = tracks.iter().map(ByteTrack::last_us).collect();
        first.sort_unstable();
        last.sort_unstable();
        let span = |first: Option<&u64>, last: Option<&u64>| {
            let (from, to) = (first.copied().unwrap_or(0), last.copied().unwrap_or(0));
            (from, to.max(from))
        };
        let (mut from, mut to) = span(first.last(), last.first());
        let together_us = to - from;
        let (from_half, to_half) = span(first.get(first.len() / 2), last.get(last.len() / 2));
        if (together_us as f64) < TOGETHER_RATIO * (to_half - from_half) as f64 {
            (from, to) = (from_half, to_half);
        }
        let bins = if to > from { build_bins(&tracks, from, to) } else { Vec::new() };
        RunArrivals { bins, tracks, together_us }
    }

    /// Builds equal bins of `step_us` from an external series.
    pub fn from_rates(rates_bps: &[f64], step_us: u64) -> RunArrivals {
        let seconds = step_us as f64 / 1e6;
        let bins = rates_bps.iter().zip(0u64..).map(|(rate, i)| ArrivalBin {
            from_us: i * step_us,
            to_us: (i + 1) * step_us,
            bytes: rate * seconds / 8.0,
        });
        let bins: Vec<ArrivalBin> = bins.collect();
        let together_us = bins.last().map_or(0, |bin| bin.to_us);
        RunArrivals { bins, tracks: Vec::new(), together_us }
    }

    pub fn from_us(&self) -> u64 {
        self.bins.first().map_or(0, |b| b.from_us)
    }

    pub fn to_us(&self) -> u64 {
        self.bins.last().map_or(0, |b| b.to_us)
    }

    pub fn rates_bps(&self) -> Vec<f64> {
        self.bins.iter().map(ArrivalBin::rate_bps).collect()
    }

    /// Returns the rate of all streams over any span of the run, at the resolution of the samples.
    pub fn rate_between_bps(&self, from_us: u64, to_us: u64) -> f64 {
        let bytes: f64 = self.tracks.iter().map(|t| t.at(to_us) - t.at(from_us)).sum();
        ArrivalBin { from_us, to_us, bytes }.rate_bps()
    }

    /// Returns the bins inside the span.
    pub fn within(&self, from_us: u64, to_us: u64) -> &[ArrivalBin] {
        let first = self.bins.partition_point(|b| b.from_us < from_us);
        let end = self.bins.partition_point(|b| b.to_us <= to_us);
        self.bins.get(first..end).unwrap_or(&[])
    }
}

/// Cuts the span at the samples of the stream that has the most of them.
fn build_bins(tracks: &[ByteTrack], from: u64, to: u64) -> Vec<ArrivalBin> {
    let Some(finest) = tracks.iter().max_by_key(|t| t.points.len()) else {
        return Vec::new();
    };
    let inside = finest.points.iter().map(|p| p.0).filter(|at| *at > from && *at < to);
    let edges: Vec<u64> = [from].into_iter().chain(inside).chain([to]).collect();
    let mut lengths: Vec<u64> = edges.windows(2).map(|w| w[1] - w[0]).collect();
    lengths.sort_unstable();
    let sliver = (lengths[lengths.len() / 2] as f64 * SLIVER_RATIO) as u64;
    let mut kept = vec![from];
    for at in edges.into_iter().skip(1) {
        if at - kept[kept.len() - 1] > sliver {
            kept.push(at);
        } else if at == to && kept.len() > 1 {
            kept.pop();
            kept.push(at);
        }
    }
    let count = |at: u64| tracks.iter().map(|t| t.at(at)).sum::<f64>();
    let bins = kept.windows(2).map(|w| ArrivalBin {
        from_us: w[0],
        to_us: w[1],
        bytes: count(w[1]) - count(w[0]),
    });
    bins.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::observation::{StreamSample, TcpReading};

    /// Samples of a sender whose peer acknowledged these bytes by these times.
    fn acknowledged(points: &[(u64, u64)]) -> ObservedStream {
        let sample = |&(at_us, acked): &(u64, u64)| StreamSample {
            at_us,
            bytes: acked + 500,
            tcp: Some(TcpReading { bytes_acked: Some(acked), ..TcpReading::default() }),
            ..StreamSample::default()
        };
        ObservedStream {
            index: 0,
            sender: StreamEnd {
                samples: points.iter().map(sample).collect(),
                ..StreamEnd::default()
            },
            receiver: StreamEnd { bytes: 4000, duration_us: 400, ..StreamEnd::default() },
        }
    }

    #[test]
    fn one_stream_that_hardly_ran_does_not_hide_the_time_of_the_others() {
        let streams =
            [(0, 10_000_000), (5_000, 9_900_000), (20_000, 8_000)].map(|(from, lasted)| {
                let samples = (1..=100).map(|step| StreamSample {
                    at_us: from + lasted * step / 100,
                    bytes: 1000 * step,
                    ..StreamSample::default()
                });
                let receiver = StreamEnd {
                    started_us: from,
                    duration_us: lasted,
                    bytes: 100_000,
                    samples: samples.collect(),
                    ..StreamEnd::default()
                };
                ObservedStream { index: 0, sender: StreamEnd::default(), receiver }
            });
        let arrivals = RunArrivals::of_tracks(streams.iter().map(ByteTrack::of_arrivals).collect());
        assert_eq!(arrivals.together_us, 8_000);
        assert_eq!((arrivals.from_us(), arrivals.to_us()), (5_000, 9_905_000));
    }

    #[test]
    fn the_time_of_a_count_lies_between_the_samples_around_it() {
        let track = ByteTrack { points: vec![(100, 0), (200, 1000), (300, 1000), (400, 2000)] };
        for (bytes, at_us) in
            [(500, Some(150.0)), (1000, Some(200.0)), (1500, Some(350.0)), (2001, None)]
        {
            assert_eq!(track.find_time_us(bytes), at_us, "{bytes} bytes");
        }
    }

    #[test]
    fn a_receiver_without_samples_got_what_its_kernel_acknowledged() {
        let mut stream = acknowledged(&[(100, 100), (200, 3000), (500, 4040)]);
        let track = ByteTrack::of_arrivals(&stream);
        let by = |at_us| track.at(at_us).round() as u64;
        assert_eq!((by(100), by(200)), (100, 3000));
        assert_eq!(by(900), 4000, "no more than the receiver counted");
        stream.receiver.samples =
            vec![StreamSample { at_us: 200, bytes: 1000, ..StreamSample::default() }];
        assert_eq!(ByteTrack::of_arrivals(&stream).at(200).round() as u64, 1000);
    }

    #[test]
    fn segments_are_those_that_the_receiver_counted_or_else_those_that_were_delivered() {
        let mut stream = acknowledged(&[(100, 100), (200, 3000)]);
        stream.sender.mss_bytes = Some(100);
        assert!(ByteTrack::of_segments(&stream).is_none(), "not counted");
        for (sample, delivered) in stream.sender.samples.iter_mut().zip([10, 30]) {
            sample.tcp.as_mut().expect("a reading").delivered_segments = Some(delivered);
        }
        let count = |stream: &ObservedStream| ByteTrack::of_segments(stream).map(|it| it.at(200));
        assert_eq!(count(&stream), Some(3000.0));
        let tcp = TcpReading { data_segments_in: Some(29), ..TcpReading::default() };
        stream.receiver.samples =
            vec![StreamSample { at_us: 200, tcp: Some(tcp), ..StreamSample::default() }];
        assert_eq!(count(&stream), Some(2900.0));
    }
}
