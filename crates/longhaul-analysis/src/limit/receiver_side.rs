//! Finds the limiter of a transfer that was observed at its receiver only.
//!
//! Unread bytes show a slow reader; arrivals of a whole window per round trip, a small window; an RTT
//! above the idle one, a full path; gaps in the sequence without it, losses; and requests, a program
//! that waits for answers. The sender's program, CPU and buffers are invisible: what none of these
//! explains is unknown.
//!
//! Source: TCP_INFO of the receiver (`tcpi_rcv_rtt`, `tcpi_rcv_ooopack`, `tcpi_rcv_wnd`); before Linux
//! 6.2 the window is estimated from the receive buffer.
//! Units: bytes, microseconds. Error: one interval.
//! Wrong when: a sender's small buffer limits a transfer that also sends requests.

use super::interval_state::{IntervalState, StateShares};
use super::limiter_verdict::{self, RunVerdict};
use super::loss_response::loss_bound_bps;
use super::request_pattern::{StreamRequests, count_growth, find_requests, fits_ssh_requests};
use super::run_reading::{QUEUED_RATIO, RunView};
use super::stream_intervals::shows_pauses;
use crate::throughput::last_tcp_info;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::{
    ObservedStream, StreamEnd, StreamSample, TcpReading, ThroughputObservation,
};
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_model::units::Rate;
use std::collections::BTreeMap;
use std::time::Duration;

/// The parameters of the classification.
struct ReceiverTuning;

impl ReceiverTuning {
    /// Unread bytes above this share of the window: the reader is behind.
    const UNREAD_RATIO: f64 = 0.25;
    /// A reader that runs or waits for a core for this share of the time is short of CPU.
    const STARVED_RATIO: f64 = 0.85;
    /// Arrivals per round trip of this share of the window: the window is the limit.
    const FULL_WINDOW_RATIO: f64 = 0.8;
    /// The same on average, of the largest window.
    const USED_UP_RATIO: f64 = 0.9;
    /// The same if its reader is late by up to a round trip.
    const LATE_WINDOW_RATIO: f64 = 0.4;
    /// The minimum share of intervals in which a late reader has not read what arrived.
    const LATE_RATIO: f64 = 0.1;
    /// A window that grew by this factor over the intervals before is still growing.
    const GROWTH_RATIO: f64 = 1.15;
    const GROWTH_INTERVALS: usize = 5;
    /// A queue delays by the time of so many segments of the stream.
    const QUEUE_SEGMENTS: f64 = 3.0;
    /// The time after a loss in which the sender's window grows back.
    const RECOVERY_US: u64 = 2_000_000;
    /// The minimum part of a request that is answered per round trip of a transfer that waits for answers.
    const MIN_REQUEST_RATIO: f64 = 0.63;
    /// Losses that allow less than this multiple of the rate may limit it.
    const LOSS_MARGIN: f64 = 2.0;
    /// The intervals up to a loss whose RTTs show whether a queue overflowed.
    const LOSS_INTERVALS: usize = 3;
    /// The certainty of verdicts that only one end supports.
    const CERTAINTY_RATIO: f64 = 0.9;
    const REQUEST_CERTAINTY_RATIO: f64 = 0.8;
    /// The least share of a limiter that is named.
    const MIN_SHARE: f64 = 0.35;
    const SECOND_SHARE: f64 = 0.3;
}

/// Returns true if only the receivers were read.
fn has_receivers_only(observation: &ThroughputObservation) -> bool {
    let is_read = |stream: &ObservedStream| {
        stream.sender.samples.is_empty() && !stream.receiver.samples.is_empty()
    };
    !observation.streams.is_empty() && observation.streams.iter().all(is_read)
}

/// Returns true if only the receiver was observed, by another program.
pub fn is_receiver_watched(observation: &ThroughputObservation) -> bool {
    has_receivers_only(observation)
        && observation.streams.iter().all(|stream| stream.receiver.blocked_us.is_none())
}

/// Names the limiter of a run, from the readings of its sender or, without them, of its receiver.
pub fn find_run_limiter(run: &RunView) -> RunVerdict {
    // A sender that was told a rate pauses, which raises the RTT that its receiver estimates.
    let plan = run.plan;
    let is_rate_requested = plan.write_rate_bps.or(plan.pacing_bps).is_some();
    let is_judged = plan.transport == RunTransport::Tcp && !is_rate_requested;
    if !is_judged || !has_receivers_only(run.observation) {
        return limiter_verdict::find_limiter(run);
    }
    let verdict = find_receiver_limiter(run);
    if is_receiver_watched(run.observation) {
        return verdict;
    }
    match limiter_verdict::rate_ramp_confidence(run, &verdict.shares) {
        Some(confidence_ratio) => {
            RunVerdict { limiter: Limiter::Ramp, confidence_ratio, second: None, ..verdict }
        }
        None => verdict,
    }
}

/// Names the limiter from the states of all intervals, each weighted by its length.
fn find_receiver_limiter(run: &RunView) -> RunVerdict {
    let mut weights: BTreeMap<IntervalState, f64> = BTreeMap::new();
    for stream in &run.observation.streams {
        let intervals = split_receiver(&stream.receiver, run.idle_rtt_us.unwrap_or(0));
        let requests = find_requests(stream).filter(|it| can_wait_for_answers(run, stream, *it));
        let reading = ArrivalContext {
            run,
            requests,
            is_queued: is_mostly_queued(run, &intervals),
            has_late_reader: has_late_reader(&intervals),
            is_window_used_up: is_window_used_up(run, &intervals),
            has_own_reader: stream.receiver.blocked_us.is_some(),
            has_calm_rtt: run.is_rtt_calm(intervals.iter().filter_map(|it| it.rtt_us)),
        };
        for (index, now) in intervals.iter().enumerate() {
            if run.steady.is_some_and(|span| now.to_us <= span.from_us) {
                continue;
            }
            let state = classify_arrivals(&reading, &intervals[..=index]);
            let is_full = state.limiter() == Limiter::PathCapacity;
            let is_refuted = !reading.has_own_reader && run.has_uneven_arrivals && is_full;
            let state = if is_refuted { IntervalState::Unknown } else { state };
            *weights.entry(state).or_default() += now.length_us as f64;
        }
    }
    let shares = StateShares::from_weights(weights);
    let ranked = shares.limiters();
    let (first, share) = ranked.first().copied().unwrap_or((Limiter::Unknown, 0.0));
    let second = ranked.get(1).copied().filter(|it| it.1 >= ReceiverTuning::SECOND_SHARE);
    let certainty = match first {
        Limiter::Unknown => 0.0,
        Limiter::Application if shares.state(IntervalState::SenderApp) > 0.0 => {
            ReceiverTuning::REQUEST_CERTAINTY_RATIO
        }
        _ => ReceiverTuning::CERTAINTY_RATIO,
    };
    let limiter = if share >= ReceiverTuning::MIN_SHARE { first } else { Limiter::Unknown };
    let confidence_ratio = if limiter == Limiter::Unknown { 0.0 } else { share * certainty };
    RunVerdict { limiter, confidence_ratio, shares, second }
}

/// Returns false if the rate is not one to which requests can limit a transfer over SSH, if the answers take most
/// of the time, and not the round trips between them, or if losses allow hardly more.
fn can_wait_for_answers(run: &RunView, stream: &ObservedStream, requests: StreamRequests) -> bool {
    let trip = Duration::from_micros(run.idle_rtt_us.unwrap_or(0));
    let length = Duration::from_micros(stream.receiver.duration_us);
    let rate = Rate::over(stream.receiver.bytes, length);
    let is_lossy = rate
        .zip(find_loss_bound(&stream.receiver, trip))
        .is_some_and(|(rate, bound)| rate.as_bps() as f64 * ReceiverTuning::LOSS_MARGIN > bound);
    if is_lossy {
        return false;
    }
    rate.map(|rate| rate.bytes_in(trip)).is_none_or(|trip_bytes| {
        let least_bytes = ReceiverTuning::MIN_REQUEST_RATIO * requests.request_bytes as f64;
        trip_bytes as f64 >= least_bytes && (!run.is_ssh || fits_ssh_requests(trip_bytes))
    })
}

/// Returns the rate in bit/s that losses allow, if each segment that arrived out of order tells of one; `None`
/// without any.
fn find_loss_bound(receiver: &StreamEnd, trip: Duration) -> Option<f64> {
    let late = count_growth(receiver, |it| it.out_of_order_segments)?;
    let arrived = count_growth(receiver, |it| it.data_segments_in)?;
    let ratio = late as f64 / arrived.max(1) as f64;
    let mss_bytes = last_tcp_info(receiver)?.mss_bytes;
    loss_bound_bps(mss_bytes as f64, trip.as_secs_f64(), ratio)
}

/// A stream whose arrivals are classified.
struct ArrivalContext<'v, 'a> {
    run: &'v RunView<'a>,
    requests: Option<StreamRequests>,
    is_queued: bool,
    has_late_reader: bool,
    /// As much arrives per round trip as the window allows, all intervals together.
    is_window_used_up: bool,
    /// The reader is that of a run, whose sender always has payload.
    has_own_reader: bool,
    /// Half of the RTTs are nearly as low as the idle one.
    has_calm_rtt: bool,
}

/// The arrivals of one interval.
struct ArrivalInterval<'a> {
    to_us: u64,
    length_us: u64,
    bytes: u64,
    unread_bytes: u64,
    window_bytes: u64,
    rtt_us: Option<u64>,
    out_of_order: u64,
    /// Share of the time that the busiest thread ran or waited for a core.
    demand: Option<f64>,
    tcp: &'a TcpReading,
}

/// Splits the samples into intervals of at least `least_us`.
fn split_receiver(end: &StreamEnd, least_us: u64) -> Vec<ArrivalInterval<'_>> {
    let mut samples = end.samples.iter();
    let Some(mut before) = samples.next() else { return Vec::new() };
    let mut intervals = Vec::new();
    for sample in samples {
        if sample.at_us.saturating_sub(before.at_us) < least_us.max(1) {
            continue;
        }
        intervals.extend(measure_arrivals(end, before, sample));
        before = sample;
    }
    intervals
}

fn measure_arrivals<'a>(
    end: &StreamEnd,
    before: &StreamSample,
    now: &'a StreamSample,
) -> Option<ArrivalInterval<'a>> {
    let (earlier, tcp) = (before.tcp.as_ref()?, now.tcp.as_ref()?);
    let grown = |of: fn(&TcpReading) -> Option<u64>| {
        Some(of(tcp)?.saturating_sub(of(earlier).unwrap_or(0)))
    };
    let length_us = now.at_us.saturating_sub(before.at_us).max(1);
    // The kernel's RTT is that of the segments that this end sends; without any it is old.
    let sends = grown(|it| it.data_segments_out).is_some_and(|count| count > 0);
    let own = Some(tcp.rtt_us).filter(|us| *us > 0);
    let rtt_us = if sends { own } else { tcp.receive_rtt_us.or(own) };
    let time = |of: fn(&StreamSample) -> Option<u64>| Some(of(now)?.saturating_sub(of(before)?));
    let demand = time(|it| it.cpu_us)
        .map(|cpu_us| cpu_us.saturating_add(time(|it| it.core_wait_us).unwrap_or(0)))
        .map(|us| us as f64 / length_us as f64);
    let buffer_bytes = end.receive_buffer.map_or(0, |buffer| buffer.stored_bytes / 2);
    Some(ArrivalInterval {
        to_us: now.at_us,
        length_us,
        bytes: grown(|it| it.bytes_received)?,
        unread_bytes: now.queue_bytes.unwrap_or(0),
        window_bytes: tcp.own_window_bytes.unwrap_or(buffer_bytes),
        rtt_us,
        out_of_order: grown(|it| it.out_of_order_segments).unwrap_or(0),
        demand,
        tcp,
    })
}

impl ArrivalInterval<'_> {
    fn is_reader_behind(&self) -> bool {
        is_reader_behind(self.unread_bytes, self.window_bytes, self.tcp.mss_bytes)
    }
}

/// Returns the state of the last of these intervals.
fn classify_arrivals(stream: &ArrivalContext, intervals: &[ArrivalInterval]) -> IntervalState {
    let Some((now, before)) = intervals.split_last() else { return IntervalState::Unknown };
    if !stream.has_late_reader && now.is_reader_behind() {
        let is_starved = now.demand.is_some_and(|it| it >= ReceiverTuning::STARVED_RATIO);
        return if is_starved { IntervalState::ReceiverCpu } else { IntervalState::ReceiverApp };
    }
    if is_window_full(stream, now) {
        let earlier = before.len().saturating_sub(ReceiverTuning::GROWTH_INTERVALS);
        let past = before[earlier..].iter().map(|it| it.window_bytes).min().unwrap_or(u64::MAX);
        let is_growing = now.window_bytes as f64 > ReceiverTuning::GROWTH_RATIO * past as f64;
        return if is_growing { IntervalState::WindowGrowing } else { IntervalState::WindowClip };
    }
    if is_queue_ahead(stream.run, now) {
        return IntervalState::PathFull;
    }
    let since = now.to_us.saturating_sub(ReceiverTuning::RECOVERY_US);
    let last_loss = intervals.iter().rposition(|it| it.out_of_order > 0);
    let last_loss = last_loss.filter(|at| stream.has_own_reader || intervals[*at].to_us >= since);
    if let Some(at) = last_loss {
        let trips = intervals[..=at].iter().rev().take(ReceiverTuning::LOSS_INTERVALS);
        let is_full = stream.is_queued
            || stream.has_own_reader
                && stream
                    .run
                    .is_queued_at_loss(trips.filter_map(|it| it.rtt_us), stream.has_calm_rtt);
        return match (is_full, now.out_of_order > 0) {
            (true, _) => IntervalState::Sawtooth,
            (false, true) => IntervalState::Loss,
            (false, false) => IntervalState::Recovering,
        };
    }
    match stream.requests {
        Some(requests) if requests.waits_for_network => IntervalState::SenderApp,
        _ => IntervalState::Unknown,
    }
}

/// Returns true if much of what the window allows waits to be read. Two segments may just have arrived,
/// except in a window that holds few of them, as on loopback.
fn is_reader_behind(unread_bytes: u64, window_bytes: u64, mss_bytes: u64) -> bool {
    let whole_bytes = window_bytes.saturating_add(unread_bytes);
    unread_bytes > mss_bytes.saturating_mul(2).min(whole_bytes / 2)
        && unread_bytes as f64 > ReceiverTuning::UNREAD_RATIO * whole_bytes as f64
}

/// Returns true if the RTT includes a queue. That of a receiver ends with the next segment of the stream, so
/// that it includes the pauses of a sender that sends few of them.
fn is_queue_ahead(run: &RunView, now: &ArrivalInterval) -> bool {
    let segment_us = now.tcp.mss_bytes as f64 * now.length_us as f64 / now.bytes.max(1) as f64;
    let idle_us = run.idle_rtt_us.unwrap_or(0) as f64;
    now.rtt_us.map(|us| us as f64).is_some_and(|rtt_us| {
        run.is_rtt_inflated(rtt_us)
            && rtt_us - idle_us >= ReceiverTuning::QUEUE_SEGMENTS * segment_us
    })
}

fn is_mostly_queued(run: &RunView, intervals: &[ArrivalInterval]) -> bool {
    let trips = || intervals.iter().filter_map(|it| it.rtt_us);
    let queued = trips().filter(|rtt| run.is_rtt_inflated(*rtt as f64)).count();
    queued as f64 >= QUEUED_RATIO * trips().count().max(1) as f64
}

/// Returns true if about the largest window arrives per round trip on average. Windows arrive as bursts, of which
/// intervals that are hardly longer than a round trip have one or two.
fn is_window_used_up(run: &RunView, intervals: &[ArrivalInterval]) -> bool {
    let bytes: u64 = intervals.iter().map(|it| it.bytes).sum();
    let length_us: u64 = intervals.iter().map(|it| it.length_us).sum();
    let window_bytes = intervals.iter().map(|it| it.window_bytes).max().unwrap_or(0);
    let trips = length_us as f64 / run.idle_rtt_us.unwrap_or(0) as f64;
    window_bytes > 0 && bytes as f64 >= ReceiverTuning::USED_UP_RATIO * window_bytes as f64 * trips
}

/// Returns true if about a whole window arrives per round trip.
fn is_window_full(stream: &ArrivalContext, now: &ArrivalInterval) -> bool {
    if stream.is_window_used_up {
        return true;
    }
    let Some(idle_us) = stream.run.idle_rtt_us.filter(|us| *us > 0) else { return false };
    let per_trip = now.bytes as f64 * idle_us as f64 / now.length_us as f64;
    let fills = |ratio: f64| per_trip >= ratio * now.window_bytes as f64;
    if stream.has_late_reader {
        now.is_reader_behind() || fills(ReceiverTuning::LATE_WINDOW_RATIO)
    } else {
        fills(ReceiverTuning::FULL_WINDOW_RATIO)
    }
}

/// Returns true if unread bytes fill a window that does not shrink: the reader empties it each time, up to a round
/// trip late, and a larger window would carry more. The window of a slow reader shrinks.
fn has_late_reader(intervals: &[ArrivalInterval]) -> bool {
    let windows = intervals.iter().filter_map(|it| it.tcp.own_window_bytes);
    let max_bytes = windows.clone().max().unwrap_or(0);
    let shrunk = windows.clone().filter(|bytes| *bytes < max_bytes / 2).count();
    let behind = intervals.iter().filter(|it| it.is_reader_behind()).count();
    windows.count() == intervals.len()
        && behind as f64 >= ReceiverTuning::LATE_RATIO * intervals.len() as f64
        && !shows_pauses(shrunk, intervals.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::run_reading::read_run;
    use crate::throughput::TransferEvidence;
    use longhaul_model::report::v1::observation::BothEnds;
    use longhaul_model::report::v1::plan::ThroughputPlan;

    #[test]
    fn a_reader_is_behind_if_a_window_of_few_segments_is_closed() {
        // Read from a download to a slow disk over loopback with 128 KiB of receive buffer.
        assert!(is_reader_behind(5_760, 0, 32_768));
        assert!(!is_reader_behind(0, 0, 32_768));
        assert!(!is_reader_behind(5_760, 60_000, 32_768));
    }

    #[test]
    fn two_segments_that_just_arrived_do_not_make_a_reader_slow() {
        assert!(!is_reader_behind(2_896, 6_000, 1_448));
        assert!(is_reader_behind(5_792, 6_000, 1_448));
    }

    /// Tests a reader of which every other interval ends with so many unread bytes in such a window.
    fn is_late(unread_bytes: u64, window_bytes: u64) -> bool {
        let small = TcpReading { own_window_bytes: Some(window_bytes), ..reading() };
        let whole = reading();
        let intervals: Vec<_> = (0..40)
            .map(|number| {
                let is_odd = number % 2 == 1;
                let tcp = if is_odd { &small } else { &whole };
                ArrivalInterval {
                    to_us: 100_000 * (number + 1),
                    length_us: 100_000,
                    bytes: 57_920,
                    unread_bytes: if is_odd { unread_bytes } else { 0 },
                    window_bytes: tcp.own_window_bytes.unwrap_or(0),
                    rtt_us: Some(10_000),
                    out_of_order: 0,
                    demand: None,
                    tcp,
                }
            })
            .collect();
        has_late_reader(&intervals)
    }

    fn reading() -> TcpReading {
        TcpReading { mss_bytes: 1_448, own_window_bytes: Some(12_288), ..TcpReading::default() }
    }

    #[test]
    fn a_reader_is_late_if_its_window_keeps_its_size_and_slow_if_it_shrinks() {
        // Read from lftp with a window of 12 kB at 10 ms.
        assert!(is_late(11_584, 12_288));
        assert!(!is_late(11_584, 2_048));
        assert!(!is_late(0, 12_288), "it reads in time");
    }

    fn name_limiter(step: impl Fn(u64) -> (u64, u64, u64)) -> Limiter {
        name_limiter_of(&ThroughputPlan::default(), step)
    }

    /// Names the limiter of a run whose receiver has these readings of the unread bytes, the RTT in
    /// milliseconds, and the segments out of order so far.
    fn name_limiter_of(plan: &ThroughputPlan, step: impl Fn(u64) -> (u64, u64, u64)) -> Limiter {
        let samples = (1..=50).map(|number| {
            let (unread, trip_ms, late) = step(number);
            let bytes = number * 1_000_000;
            let tcp = TcpReading {
                mss_bytes: 1448,
                receive_rtt_us: Some(trip_ms * 1000),
                bytes_received: Some(bytes),
                out_of_order_segments: Some(late),
                // The window of a slow reader shrinks.
                own_window_bytes: Some(if unread > 0 && number > 9 { 1 << 20 } else { 4 << 20 }),
                ..TcpReading::default()
            };
            StreamSample {
                at_us: number * 200_000,
                bytes,
                queue_bytes: Some(unread),
                tcp: Some(tcp),
                ..StreamSample::default()
            }
        });
        let end = StreamEnd {
            bytes: 50_000_000,
            duration_us: 10_000_000,
            blocked_us: Some(9_000_000),
            samples: samples.collect(),
            ..StreamEnd::default()
        };
        let stream = ObservedStream { index: 0, sender: StreamEnd::default(), receiver: end };
        let observation = ThroughputObservation {
            forward: false,
            elapsed_us: 10_000_000,
            idle_rtt_us: Some(40_000),
            clock_error_us: None,
            same_host: false,
            same_boot: None,
            streams: vec![stream],
            ends: BothEnds::default(),
            reverse: None,
        };
        let run = read_run(plan, &observation, TransferEvidence::default());
        find_run_limiter(&run).limiter
    }

    #[test]
    fn the_reader_of_a_run_names_what_its_own_readings_show() {
        assert_eq!(name_limiter(|_| (0, 80, 0)), Limiter::PathCapacity);
        assert_eq!(name_limiter(|_| (3 << 20, 40, 0)), Limiter::Application);
        assert_eq!(name_limiter(|_| (0, 40, 0)), Limiter::Unknown);
    }

    #[test]
    fn the_pauses_of_a_sender_that_was_told_a_rate_are_no_queue() {
        let plan = ThroughputPlan { write_rate_bps: Some(40_000_000), ..ThroughputPlan::default() };
        assert_eq!(name_limiter_of(&plan, |_| (0, 80, 0)), Limiter::Unknown);
    }

    #[test]
    fn a_loss_is_that_of_a_full_path_if_the_rtt_rose_before_it() {
        // A loss every three seconds, whose cycle ends with a short queue.
        let lose = |number: u64| number / 15;
        let rise = |number: u64| if number % 15 >= 13 { 43 } else { 40 };
        assert_eq!(name_limiter(|number| (0, rise(number), lose(number))), Limiter::PathCapacity);
        assert_eq!(name_limiter(|number| (0, 40, lose(number))), Limiter::Loss);
    }
}
