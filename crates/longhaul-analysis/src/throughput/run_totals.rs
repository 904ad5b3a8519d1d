//! Totals of a run: bytes, packets, losses and cost.
//!
//! Sums over the streams' last counts; per-stream lines for the table. Packets sent are the
//! sender's, packets received the receiver's, acknowledgements of each included (`tcpi_segs_out`,
//! `tcpi_segs_in`).
//!
//! Source: last counts of both ends. Units: bytes, segments, microseconds per 10^9 bytes.
//! Error: bytes in flight when counting ends are in neither count.
//! Wrong when: a stream has no TCP_INFO; then the sums over packets are absent.
//!
//! # RTT
//!
//! Round-trip times under load and without load.
//!
//! The kernel's smoothed RTT at each sample of the sender, weighted by the bytes the stream moved
//! in that time. Source: `tcpi_rtt`, `tcpi_min_rtt`. Units: microseconds.
//! Error: smoothing (1/8 per RTT) hides spikes. Wrong when: the queue never emptied in the run and
//! no idle round trip was timed; then the idle RTT is too high.

use crate::limit::run_view::RunView;
use longhaul_model::report::v1::analysis::{LoadedRtt, RunTotals, StreamTotals};
use longhaul_model::report::v1::observation::{
    EndObservation, ObservedStream, StreamEnd, TcpReading, ThroughputObservation, UdpCounts,
};
use longhaul_model::units::Rate;
use std::time::Duration;

pub fn compute_totals(observation: &ThroughputObservation) -> RunTotals {
    let streams = &observation.streams;
    let sum =
        |of: fn(&ObservedStream) -> u64| streams.iter().fold(0u64, |t, s| t.saturating_add(of(s)));
    let sender_bytes = sum(|s| s.sender.bytes);
    let receiver_bytes = sum(|s| s.receiver.bytes);
    let data_segments_sent = sum_readings(streams, |s| last_tcp_info(&s.sender)?.data_segments_out);
    let wire_bytes =
        sum_readings(streams, |s| last_tcp_info(&s.sender)?.bytes_sent).unwrap_or(sender_bytes);
    let ends = &observation.ends;
    RunTotals {
        sender_bytes,
        receiver_bytes,
        undelivered_bytes: sender_bytes.saturating_sub(receiver_bytes),
        data_segments_sent,
        retransmitted_segments: sum_readings(streams, |s| {
            Some(last_tcp_info(&s.sender)?.retransmitted_segments)
        }),
        mean_segment_bytes: data_segments_sent.and_then(|n| wire_bytes.checked_div(n)),
        packets_sent: sum_readings(streams, |s| last_tcp_info(&s.sender)?.segments_out),
        packets_received: sum_readings(streams, |s| last_tcp_info(&s.receiver)?.segments_in),
        stream_errors: streams.iter().filter(|s| has_failed(s)).count() as u64,
        sender_cpu_us_per_gb: scale_ratio(sum_cpu_us(&ends.sender), 1_000_000_000, sender_bytes),
        receiver_cpu_us_per_gb: scale_ratio(
            sum_cpu_us(&ends.receiver),
            1_000_000_000,
            receiver_bytes,
        ),
        sender_millicycles_per_byte: scale_ratio(ends.sender.cycles, 1000, sender_bytes),
        receiver_millicycles_per_byte: scale_ratio(ends.receiver.cycles, 1000, receiver_bytes),
        loss_ratio: compute_loss_ratio(streams),
        jitter_us: compute_mean_jitter_us(streams),
    }
}

pub fn list_stream_totals(observation: &ThroughputObservation) -> Vec<StreamTotals> {
    observation.streams.iter().map(compute_stream_totals).collect()
}

fn compute_stream_totals(stream: &ObservedStream) -> StreamTotals {
    let (sender, receiver) = (&stream.sender, &stream.receiver);
    let tcp = || sender.samples.iter().filter_map(|s| s.tcp.as_ref());
    let lasted = Duration::from_micros(receiver.duration_us);
    StreamTotals {
        index: stream.index,
        bytes: receiver.bytes,
        duration_us: receiver.duration_us,
        goodput_bps: Rate::over(receiver.bytes, lasted).map(Rate::as_bps),
        writes_per_1000s: scale_ratio(sender.calls, 1_000_000_000, sender.duration_us),
        retransmitted_segments: last_tcp_info(sender).map(|t| t.retransmitted_segments),
        rtt_min_us: tcp().filter_map(|t| t.rtt_min_us).min(),
        cwnd_max_bytes: tcp().map(|t| t.cwnd_bytes).max(),
    }
}

fn has_failed(stream: &ObservedStream) -> bool {
    stream.sender.error.is_some() || stream.receiver.error.is_some()
}

/// Returns the last TCP_INFO of one end of a stream.
pub fn last_tcp_info(end: &StreamEnd) -> Option<&TcpReading> {
    end.samples.iter().rev().find_map(|s| s.tcp.as_ref())
}

/// Returns the sum, if there are streams and all of them have the reading.
fn sum_readings(
    streams: &[ObservedStream],
    of: impl Fn(&ObservedStream) -> Option<u64>,
) -> Option<u64> {
    let readings: Option<Vec<u64>> = streams.iter().map(of).collect();
    let readings = readings.filter(|r| !r.is_empty())?;
    Some(readings.into_iter().fold(0u64, u64::saturating_add))
}

fn sum_cpu_us(end: &EndObservation) -> Option<u64> {
    Some(end.cpu_user_us?.saturating_add(end.cpu_system_us?))
}

/// Returns `amount × scale / base`, in integers; `None` without a base or a reading.
fn scale_ratio(amount: Option<u64>, scale: u64, base: u64) -> Option<u64> {
    let scaled = u128::from(amount?) * u128::from(scale);
    u64::try_from(scaled.checked_div(u128::from(base))?).ok()
}

fn list_udp_counters(streams: &[ObservedStream]) -> impl Iterator<Item = &UdpCounts> {
    streams.iter().filter_map(|s| s.receiver.udp.as_ref())
}

fn compute_loss_ratio(streams: &[ObservedStream]) -> Option<f64> {
    let lost: f64 = list_udp_counters(streams).map(|u| u.lost as f64).sum();
    let arrived: f64 = list_udp_counters(streams).map(|u| u.datagrams as f64).sum();
    (lost + arrived > 0.0).then(|| lost / (lost + arrived))
}

/// Returns the mean of the streams' jitters.
fn compute_mean_jitter_us(streams: &[ObservedStream]) -> Option<u64> {
    let readings: Vec<u64> = list_udp_counters(streams).filter_map(|u| u.jitter_ns).collect();
    let sum = readings.iter().fold(0u64, |t, j| t.saturating_add(*j));
    Some(sum.checked_div(readings.len() as u64)? / 1000)
}

/// Returns the minimum RTT known: that of the idle control connection or the kernel's minimum.
pub fn find_idle_rtt_us(observation: &ThroughputObservation) -> Option<u64> {
    let samples = observation.streams.iter().flat_map(|s| &s.sender.samples);
    let kernel = samples.filter_map(|s| {
        let tcp = s.tcp.as_ref()?;
        tcp.rtt_min_us.or(Some(tcp.rtt_us)).filter(|us| *us > 0)
    });
    kernel.chain(observation.idle_rtt_us.filter(|us| *us > 0)).min()
}

/// Returns the RTTs of the judged part; `None` if none was read.
pub fn compute_loaded_rtt(run: &RunView) -> Option<LoadedRtt> {
    let readings: Vec<(f64, f64)> = run
        .judged_intervals()
        .filter_map(|i| Some((i.rtt_us? as f64, i.delivered_bytes + 1.0)))
        .collect();
    let weight: f64 = readings.iter().map(|r| r.1).sum();
    let weighted = |of: &dyn Fn(f64) -> f64| -> f64 {
        readings.iter().map(|(rtt, bytes)| of(*rtt) * bytes).sum::<f64>() / weight
    };
    let fold = |pick: fn(f64, f64) -> f64| readings.iter().map(|r| r.0).reduce(pick);
    let (min, max) = (fold(f64::min)?, fold(f64::max)?);
    let mean = weighted(&|rtt| rtt).clamp(min, max);
    Some(LoadedRtt {
        min: min as u64,
        mean: mean.round() as u64,
        max: max as u64,
        stddev: weighted(&|rtt| (rtt - mean).powi(2)).sqrt().round() as u64,
    })
}
