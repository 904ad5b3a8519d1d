//! Detects that the way back is full: acknowledgements queue there and are dropped.
//!
//! Acknowledgements arrive at the rate of the full link, whatever the data does: their rate is flatter
//! than that of the data segments. Some that the receiver sent do not arrive, and the RTT is raised.
//! Random loss of acknowledgements leaves them in proportion to the data. A queue that loses nothing shows
//! itself by its delay: the clocks of both ends are aligned, so that the rise of the RTT between the
//! reading of bytes and their acknowledgement is known to be on the way back.
//!
//! Source: RFC 3449 section 2 (asymmetric paths); the thresholds are from drawn networks with queueing
//! disciplines of Linux 6.12. Units: segments, shares. Error: the acknowledgements of the last RTT.
//! Wrong when: a device on the path thins acknowledgements out to a constant rate on purpose.

use super::run_reading::{QUEUED_RATIO, RunView};
use super::stream_intervals::SampleInterval;
use crate::stats::{mean_and_deviation, median};
use crate::throughput::arrival_timeline::ByteTrack;
use crate::throughput::last_tcp_info;
use longhaul_model::report::v1::observation::{ObservedStream, TcpReading};

/// The parameters of the detection.
struct ReturnPathTuning;

impl ReturnPathTuning {
    /// The minimum share of acknowledgements that did not arrive.
    const MIN_LOST_RATIO: f64 = 0.03;
    /// The maximum variation of the acknowledgements' rate, relative to that of the data.
    const MAX_VARIATION_RATIO: f64 = 0.75;
    /// If the receiver's count is missing: the same, the minimum variation of the data, and the minimum
    /// number of data segments for an acknowledgement (two, as RFC 5681 wants, unless the receiver
    /// merges segments).
    const MAX_UNCOUNTED_VARIATION_RATIO: f64 = 0.6;
    const MIN_DATA_VARIATION: f64 = 0.15;
    const MIN_SEGMENTS_PER_ACK: f64 = 3.0;
    /// The minimum number of intervals, and the share of them that belongs to the ramp.
    const MIN_INTERVALS: usize = 20;
    const RAMP_SHARE: usize = 5;
    /// The minimum share of the rise of the RTT that is on the way back.
    const MIN_LATE_RATIO: f64 = 0.6;
    /// The minimum rise, and its minimum ratio to the error of the clocks.
    const MIN_RISE_US: f64 = 10_000.0;
    const MIN_CLOCK_RATIO: f64 = 4.0;
    /// The bytes of an acknowledgement on an Ethernet link: IP, TCP with timestamps, and Ethernet.
    const ACK_BYTES: f64 = 66.0;
}

/// A way back that is full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FullReturnPath {
    /// The share of the acknowledgements that did not arrive; `None` if the receiver's count is
    /// missing.
    pub lost_ratio: Option<f64>,
    /// The time by which acknowledgements are late, if that is most of what the RTT rose.
    pub late_us: Option<f64>,
    pub acks_per_second: f64,
    /// The rate of the acknowledgements on an Ethernet link, in bit/s.
    pub rate_bps: f64,
}

/// Returns the full way back, if the run shows one.
pub fn find_full_return_path(run: &RunView) -> Option<FullReturnPath> {
    if run.has_pausing_reader || run.queued_ratio < QUEUED_RATIO {
        return None;
    }
    let late_us = measure_late_acks(run);
    let (acks, data) =
        (sum_rates(run, |tcp| tcp.segments_in), sum_rates(run, |tcp| tcp.data_segments_out));
    let (acks_per_second, ack_variation) = compute_variation(&acks)?;
    let (data_per_second, data_variation) = compute_variation(&data)?;
    let lost_ratio = compute_lost_ratio(&run.observation.streams);
    let flatness = ack_variation / data_variation.max(f64::MIN_POSITIVE);
    let is_full = late_us.is_some()
        || match lost_ratio {
            Some(lost) => {
                lost >= ReturnPathTuning::MIN_LOST_RATIO
                    && flatness <= ReturnPathTuning::MAX_VARIATION_RATIO
            }
            None => {
                flatness <= ReturnPathTuning::MAX_UNCOUNTED_VARIATION_RATIO
                    && data_variation >= ReturnPathTuning::MIN_DATA_VARIATION
                    && data_per_second >= ReturnPathTuning::MIN_SEGMENTS_PER_ACK * acks_per_second
            }
        };
    let rate_bps = acks_per_second * ReturnPathTuning::ACK_BYTES * 8.0;
    is_full.then_some(FullReturnPath { lost_ratio, late_us, acks_per_second, rate_bps })
}

/// Returns the time by which acknowledgements are late, if most of the rise of the RTT is on the way back:
/// from the time at which the receiver had read so many bytes to that at which they were acknowledged.
fn measure_late_acks(run: &RunView) -> Option<f64> {
    let idle_us = run.idle_rtt_us? as f64;
    let mut delays_us = Vec::new();
    for (observed, intervals) in run.observation.streams.iter().zip(&run.streams) {
        let read = ByteTrack::of(&observed.receiver);
        let judged = intervals.iter().filter(|interval| run.is_judged(interval));
        delays_us.extend(judged.filter_map(|interval| {
            let read_us = read.find_time_us(interval.tcp?.bytes_acked?)?;
            Some(interval.to_us as f64 - read_us)
        }));
    }
    let late_us = median(delays_us)? - idle_us / 2.0;
    let rise_us =
        median(run.judged_intervals().filter_map(|i| i.rtt_us).map(|us| us as f64))? - idle_us;
    let error_us = ReturnPathTuning::MIN_CLOCK_RATIO * run.observation.clock_error_us? as f64;
    (rise_us >= ReturnPathTuning::MIN_RISE_US.max(error_us)
        && late_us >= ReturnPathTuning::MIN_LATE_RATIO * rise_us)
        .then_some(late_us)
}

/// Returns the share of the receiver's segments that its peer did not get.
fn compute_lost_ratio(streams: &[ObservedStream]) -> Option<f64> {
    let counts = streams.iter().map(|stream| {
        let came = last_tcp_info(&stream.sender)?.segments_in?;
        Some((came, last_tcp_info(&stream.receiver)?.segments_out?))
    });
    let counts: Vec<(u64, u64)> = counts.collect::<Option<_>>()?;
    let sum =
        |of: fn(&(u64, u64)) -> u64| counts.iter().map(of).fold(0, u64::saturating_add) as f64;
    let (came, sent) = (sum(|it| it.0), sum(|it| it.1));
    (sent > 0.0).then(|| (1.0 - came / sent).max(0.0))
}

/// Returns the growth per second of a counter of the sender in each interval, all streams together.
fn sum_rates(run: &RunView, read: fn(&TcpReading) -> Option<u64>) -> Vec<f64> {
    let of_stream = |intervals: &[SampleInterval]| -> Vec<f64> {
        let mut before = 0;
        let mut rates = Vec::with_capacity(intervals.len());
        for interval in intervals.iter().filter(|interval| !interval.draining) {
            let Some(count) = interval.tcp.and_then(read) else { continue };
            let grown = count.saturating_sub(before) as f64;
            rates.push(grown * 1e6 / interval.length_us().max(1) as f64);
            before = count;
        }
        rates
    };
    let streams: Vec<Vec<f64>> = run.streams.iter().map(|stream| of_stream(stream)).collect();
    let length = streams.iter().map(Vec::len).min().unwrap_or(0);
    let from = length / ReturnPathTuning::RAMP_SHARE;
    (from..length).map(|i| streams.iter().map(|rates| rates[i]).sum()).collect()
}

/// Returns the mean and the coefficient of variation.
fn compute_variation(rates: &[f64]) -> Option<(f64, f64)> {
    let (mean, deviation) = mean_and_deviation(rates)?;
    (rates.len() >= ReturnPathTuning::MIN_INTERVALS && mean > 0.0)
        .then_some((mean, deviation / mean))
}
