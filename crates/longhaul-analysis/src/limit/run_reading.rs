//! Reads a run: derives once what all judgements of it share.
//!
//! The intervals of all streams, the sum of their arrivals, RTTs, totals, the level of the rate,
//! and a token bucket if there was one.
//!
//! Source: both ends' samples. Units: bit/s, microseconds. Error: that of the samples' spacing.
//! Wrong when: streams take different routes (one idle RTT for all).
//!
//! # Run view
//!
//! A run with everything that is derived from it once: intervals, arrivals, RTTs, totals, level of
//! the rate, clipped buffers, and a token bucket if there was one.
//!
//! Source: both ends' samples. Units: bit/s, microseconds. Error: that of the samples' spacing.
//! Wrong when: streams take different routes (one idle RTT for all).

use super::host_load;
use super::loss_response::loss_bound_bps;
use super::path_outage::{self, PathOutage};
use super::policer_fit::{self, PolicerFit};
use super::rate_levels::{self, RateLevel};
use super::return_path::{self, FullReturnPath};
use super::shaper_fit::{self, ShaperFit};
use super::stream_intervals::{self, SampleInterval};
use super::{visible_queue, window_cycle};
use crate::stats::{mad_scale, median, quantile, sort_finite};
use crate::throughput;
use crate::throughput::TransferEvidence;
use crate::throughput::arrival_timeline::{ArrivalBin, RunArrivals};
use longhaul_model::report::v1::analysis::{LoadedRtt, RunTotals, SteadySpan};
use longhaul_model::report::v1::observation::{
    ObservedStream, SocketBuffer, ThroughputObservation,
};
use longhaul_model::report::v1::plan::ThroughputPlan;

/// The level of the rate: all but the fastest tenth of the intervals stay below.
const LEVEL_QUANTILE: f64 = 0.9;
/// A rate whose intervals scatter less than this is flat: its limit is constant.
const FLAT_RATIO: f64 = 0.04;
/// The minimum number of intervals to see flatness.
const MIN_FLAT_INTERVALS: usize = 8;
/// The minimum share of retransmissions that the kernel deferred because of the send buffer.
const REFUSED_RATIO: f64 = 0.5;

/// A full path delivers all the time, and a sender that waits raises the RTT of a receiver or a capture,
/// too: arrivals that scatter more than this share of their median, or than so many segments, refute a full
/// path. Half of the range of the middle 70 % counts. On drawn networks full paths had up to 0.5 % or one
/// segment, slow writers 2 to 130 %, mostly more than 6 %.
const MAX_ARRIVAL_SCATTER: f64 = 0.05;
const ARRIVAL_SCATTER_SEGMENTS: f64 = 1.5;

/// Derives the view of one direction of a run.
pub fn read_run<'a>(
    plan: &'a ThroughputPlan,
    observation: &'a ThroughputObservation,
    evidence: TransferEvidence,
) -> RunView<'a> {
    let arrivals = RunArrivals::of(observation);
    let segments = RunArrivals::of_segments(observation);
    let idle_rtt_us = throughput::find_idle_rtt_us(observation);
    let observed = observation.streams.iter();
    let streams: Vec<_> = observed
        .clone()
        .map(|s| stream_intervals::split_stream(s, idle_rtt_us.unwrap_or(0)))
        .collect();
    let grown = streams.iter().flatten();
    let retransmitted_segments =
        grown.filter_map(|i| i.retransmitted_segments).fold(0, u64::saturating_add);
    let has_pausing_reader = streams.iter().any(|it| stream_intervals::has_pausing_reader(it));
    let rates = sort_finite(segments.rates_bps());
    let losses =
        window_cycle::list_window_losses(&observation.streams, &streams, idle_rtt_us.unwrap_or(0));
    let steady = throughput::find_steady_span(&arrivals, plan.warm_up_us).or_else(|| {
        // A rate that goes through cycles climbs in each of them.
        let from_us = window_cycle::find_first_cycle_us(&losses)?;
        let span = SteadySpan { from_us, to_us: arrivals.to_us() };
        let can_have_cycles = plan.warm_up_us.is_none() && span.from_us < span.to_us;
        let goodput = throughput::measure_goodput(&arrivals, Some(span));
        (can_have_cycles && goodput.is_informative()).then_some(span)
    });
    let mut run = RunView {
        plan,
        observation,
        is_ssh: evidence.is_ssh,
        is_captured: evidence.is_captured,
        steady,
        level_bps: quantile(&rates, LEVEL_QUANTILE).unwrap_or(0.0),
        scatter_ratio: None,
        flat: false,
        has_uneven_arrivals: false,
        bucket: shaper_fit::find_shaper(&segments).filter(|_| !has_pausing_reader),
        has_pausing_reader,
        has_late_acks: false,
        has_queue_of_others: false,
        has_short_queue: false,
        busy_ratio: 0.0,
        policer: None,
        may_be_policed: false,
        levels: Vec::new(),
        outages: Vec::new(),
        full_return_path: None,
        loaded_rtt: None,
        queued_ratio: 0.0,
        totals: throughput::compute_totals(observation),
        retransmitted_segments,
        loss_ratio: compute_loss_ratio(observation, retransmitted_segments),
        mss_bytes: observed
            .clone()
            .filter_map(|s| Some(throughput::last_tcp_info(&s.sender)?.mss_bytes))
            .max(),
        host_drops: count_host_drops(observation),
        refused_retransmits: count_refused_retransmits(observation, retransmitted_segments),
        has_marked_segments: has_marked_segments(observation),
        bbr: observed.clone().any(is_bbr),
        receive_clip: observed
            .clone()
            .filter_map(|s| s.receiver.receive_buffer)
            .find_map(find_buffer_clip)
            .filter(|_| plan.receive_buffer_bytes.is_some()),
        send_clip: observed
            .filter_map(|s| s.sender.send_buffer)
            .find_map(find_buffer_clip)
            .filter(|_| plan.send_buffer_bytes.is_some()),
        arrivals,
        segments,
        streams,
        losses,
        idle_rtt_us,
    };
    run.has_late_acks = has_late_acks(&run);
    run.has_uneven_arrivals = has_uneven_arrivals(&run);
    run.has_queue_of_others = has_queue_of_others(&run);
    run.busy_ratio = host_load::measure_busy_ratio(&run);
    run.queued_ratio = run.measure_queued_ratio(run.streams.iter().flatten());
    run.outages = path_outage::find_outages(&run);
    let of_headers = observation.ends.sender.header_capture.and_then(|it| it.policer);
    run.policer = evidence
        .policer
        .or(of_headers)
        .filter(|_| run.queued_ratio < QUEUED_RATIO && run.retransmitted_segments > 0)
        .map(|policer| policer_fit::describe_captured_policer(&run, policer))
        .or_else(|| policer_fit::find_policer(&run));
    run.may_be_policed = run.policer.is_some_and(|it| !it.is_likely);
    run.policer = run.policer.filter(|it| it.is_likely);
    run.has_short_queue = visible_queue::has_short_queue(&run);
    run.levels = find_path_levels(&run);
    settle_bucket(&mut run);
    run.full_return_path = return_path::find_full_return_path(&run);
    run.scatter_ratio = compute_scatter(&run);
    run.flat = run.scatter_ratio.is_some_and(|r| r < FLAT_RATIO);
    run.loaded_rtt = throughput::compute_loaded_rtt(&run);
    run
}

/// Returns true if the segments of all streams arrive too unevenly for a full path.
fn has_uneven_arrivals(run: &RunView) -> bool {
    let rates = sort_finite(run.segments.rates_bps());
    let [low_bps, level_bps, high_bps] =
        [0.15, 0.5, 0.85].map(|share| quantile(&rates, share).unwrap_or(0.0));
    let slot_us = (run.segments.to_us() - run.segments.from_us()) / rates.len().max(1) as u64;
    let slot_segments = slot_us as f64 / run.segment_us(level_bps);
    let max_ratio = MAX_ARRIVAL_SCATTER.max(ARRIVAL_SCATTER_SEGMENTS / slot_segments);
    high_bps - low_bps > 2.0 * max_ratio * level_bps
}

/// The quantile of the rates of a stream, and the minimum ratio of that of the kernel's delivery rates to that
/// of the intervals, for a path that passes more than the stream reaches. Of 70 full paths with one stream
/// none had more than 1.00; three readers that acknowledged late had 1.11 to 1.68.
const DELIVERY_QUANTILE: f64 = 0.9;
const MIN_DELIVERY_RATIO: f64 = 1.06;

/// Returns true if the only stream of another program is delivered faster at times than it ever goes: no path
/// is full below the rate that it delivers (`tcpi_delivery_rate`, Linux 4.9), so that a raised RTT is the
/// reader's, which acknowledges when it reads.
fn has_late_acks(run: &RunView) -> bool {
    let [intervals] = &run.streams[..] else { return false };
    let rates =
        intervals.iter().filter_map(|i| Some((i.tcp?.delivery_bps? as f64, i.acked_rate_bps()?)));
    let (delivered, reached): (Vec<f64>, Vec<f64>) = rates.unzip();
    let high = |rates: Vec<f64>| quantile(&sort_finite(rates), DELIVERY_QUANTILE);
    !run.has_own_senders()
        && high(delivered).zip(high(reached)).is_some_and(|(delivered_bps, reached_bps)| {
            delivered_bps >= MIN_DELIVERY_RATIO * reached_bps
        })
}

/// An RTT that exceeds the minimum of the run by this share, and this time, was raised by a queue.
const OTHERS_RATIO: f64 = 0.05;
const OTHERS_US: f64 = 500.0;

/// Returns true if the RTT was raised before the run, and half of the RTTs during it, against the minimum
/// of the run: others fill a queue that empties at times.
fn has_queue_of_others(run: &RunView) -> bool {
    let Some(min_us) = run.idle_rtt_us.map(|us| us as f64) else {
        return false;
    };
    let is_raised = |us: f64| us - min_us >= OTHERS_US.max(OTHERS_RATIO * us);
    let trips = run.streams.iter().flatten().filter_map(|i| i.rtt_us).map(|us| us as f64);
    run.observation.idle_rtt_us.is_some_and(|us| is_raised(us as f64))
        && median(trips).is_some_and(is_raised)
}

fn is_bbr(stream: &ObservedStream) -> bool {
    let name = stream.sender.congestion_control.as_deref();
    name.is_some_and(|name| name.starts_with("bbr"))
}

fn find_buffer_clip(buffer: SocketBuffer) -> Option<ClippedBuffer> {
    let requested_bytes = buffer.asked_bytes?;
    (buffer.granted_bytes < requested_bytes)
        .then_some(ClippedBuffer { requested_bytes, granted_bytes: buffer.granted_bytes })
}

/// Divides by the payload segments sent, from counters or from bytes over segment size.
fn compute_loss_ratio(observation: &ThroughputObservation, retransmitted: u64) -> Option<f64> {
    let counts = observation.streams.iter().map(|s| {
        let tcp = throughput::last_tcp_info(&s.sender)?;
        tcp.data_segments_out.or_else(|| s.sender.bytes.checked_div(tcp.mss_bytes))
    });
    let counts: Option<Vec<u64>> = counts.collect();
    let sent = counts?.into_iter().fold(0, u64::saturating_add);
    (sent > 0).then(|| (retransmitted as f64 / sent as f64).min(1.0))
}

fn count_host_drops(observation: &ThroughputObservation) -> u64 {
    let ends = &observation.ends;
    let counts = [&ends.sender.interface, &ends.receiver.interface];
    let dropped = counts.into_iter().flatten().filter(|(name, _)| is_drop_counter(name));
    dropped.fold(0, |sum, (_, grown)| sum.saturating_add(*grown))
}

fn has_marked_segments(observation: &ThroughputObservation) -> bool {
    let senders = || observation.streams.iter().map(|stream| &stream.sender);
    let own = senders().filter_map(|sender| throughput::last_tcp_info(sender)?.marked_segments);
    let of_host = observation.ends.sender.protocol.get("TcpExt.TCPDeliveredCE").copied();
    senders().any(|sender| sender.options.is_some_and(|options| options.ecn))
        && own.chain(of_host).any(|count| count > 0)
}

/// Returns the number of retransmissions that the kernel deferred, or 0 if too few to matter. Since
/// 2019 Linux does not split a queued segment to retransmit it while the queue is far over its
/// buffer: repairing a loss then takes a round trip per few segments because of the buffer.
fn count_refused_retransmits(observation: &ThroughputObservation, retransmitted: u64) -> u64 {
    let refused = observation.ends.sender.protocol.iter();
    let refused = refused
        .filter(|(name, _)| name.ends_with("TCPWqueueTooBig"))
        .map(|(_, grown)| *grown)
        .fold(0, u64::saturating_add);
    if refused as f64 >= REFUSED_RATIO * retransmitted as f64 { refused } else { 0 }
}

/// Returns the levels of the path's free rate: one if it did not change, none if it was not seen.
fn find_path_levels(run: &RunView) -> Vec<RateLevel> {
    let rtt_us = run.idle_rtt_us.unwrap_or(0);
    let slot_us = rate_levels::choose_slot_us(run.segment_us(run.level_bps), rtt_us);
    if run.has_pausing_reader || !run.outages.is_empty() || run.policer.is_some() {
        return Vec::new();
    }
    let mut levels: Vec<RateLevel> = Vec::new();
    for level in rate_levels::find_rate_levels(&run.segments, slot_us) {
        match levels.last_mut() {
            Some(last) if !rate_levels::is_path_full_at_lower(run, last, &level) => {
                // A rise without a queue is TCP's climb, and a fall is the sender's.
                if level.bps < last.bps {
                    return Vec::new();
                }
                *last = RateLevel { from_us: last.from_us, ..level };
            }
            _ => levels.push(level),
        }
    }
    levels
}

/// The knee is found to a bin or two.
const BUCKET_MARGIN_US: u64 = 250_000;
/// The scatter of a rate that a token bucket keeps constant.
const BUCKET_SCATTER_RATIO: f64 = 0.01;

/// Returns true if segments were lost well before the step: the path was full already, and its capacity
/// may have changed.
fn is_lossy_before_knee(run: &RunView, bucket: ShaperFit) -> bool {
    let margin_us = BUCKET_MARGIN_US.max(run.idle_rtt_us.unwrap_or(0).saturating_mul(2));
    let is_before =
        |interval: &&SampleInterval| interval.to_us.saturating_add(margin_us) < bucket.knee_us;
    let mut before = run.streams.iter().flatten().filter(is_before);
    before.any(SampleInterval::has_retransmits)
}

/// The high RTTs, and the maximum ratio of the delay of a queue that losses before and after a step show
/// to be the same.
const FULL_QUEUE_QUANTILE: f64 = 0.9;
const SAME_QUEUE_RATIO: f64 = 1.25;

/// Returns true if the full queue delays as much after the step as before it. Then it empties at the rate
/// that it had, and others use a part of that. A bucket that ended, or a capacity that fell, delays in
/// proportion to the rates.
fn is_same_queue(run: &RunView, bucket: ShaperFit) -> bool {
    let idle_us = run.idle_rtt_us.unwrap_or(0) as f64;
    let full_us = |is_after: bool| {
        let part =
            run.streams.iter().flatten().filter(|i| (i.from_us >= bucket.knee_us) == is_after);
        let trips = sort_finite(part.filter_map(|i| i.rtt_us).map(|us| us as f64));
        quantile(&trips, FULL_QUEUE_QUANTILE).map(|us| us - idle_us).filter(|us| *us > 0.0)
    };
    full_us(false).zip(full_us(true)).is_some_and(|(before, after)| {
        (1.0 / SAME_QUEUE_RATIO..=SAME_QUEUE_RATIO).contains(&(after / before))
    })
}

/// Makes the part after the knee the steady part. A step without a standing queue, or one that
/// a policer explains is not a shaper. If the path was full before, the rate after the step has to be as
/// constant as that of a token bucket and the queue another one, and the levels stay as another
/// explanation.
fn settle_bucket(run: &mut RunView) {
    let lossy = run.bucket.is_some_and(|bucket| is_lossy_before_knee(run, bucket));
    let scatter_ratio = run.levels.last().map_or(1.0, |level| level.scatter_ratio);
    let is_step = run.levels.len() == 2 && (!lossy || scatter_ratio < BUCKET_SCATTER_RATIO);
    run.bucket = run
        .bucket
        .filter(|bucket| !lossy || !is_same_queue(run, *bucket))
        .filter(|bucket| run.policer.is_none() && is_step && is_queued_after(run, bucket.knee_us));
    let Some(bucket) = run.bucket else { return };
    if !lossy {
        run.levels.clear();
    }
    if run.plan.warm_up_us.is_none() {
        let to_us = run.arrivals.to_us();
        run.steady = Some(SteadySpan { from_us: bucket.knee_us, to_us });
        run.level_bps = bucket.sustained_bps;
    }
}

/// Returns true if RTTs after this time show a queue: a shaper queues the excess.
fn is_queued_after(run: &RunView, at_us: u64) -> bool {
    let after = run.streams.iter().flatten().filter(|interval| interval.from_us >= at_us);
    run.measure_queued_ratio(after) >= QUEUED_RATIO
}

fn compute_scatter(run: &RunView) -> Option<f64> {
    let span = run.steady?;
    let bins = run.arrivals.within(span.from_us, span.to_us);
    let rates: Vec<f64> = bins.iter().map(ArrivalBin::rate_bps).collect();
    let level = median(rates.iter().copied()).unwrap_or(0.0);
    let told = rates.len() >= MIN_FLAT_INTERVALS && level > 0.0;
    mad_scale(&rates).filter(|_| told).map(|scatter| scatter / level)
}

/// A standing queue exceeds the idle RTT by this time, this share of it, and the time of so many
/// segments: a slow link delays a few segments of a burst, and acknowledgements wait for each other.
const QUEUE_US: f64 = 2000.0;
const QUEUE_RATIO: f64 = 0.1;
const QUEUE_SEGMENTS: f64 = 3.0;
/// With losses, a smaller share is a queue if RTTs are calm otherwise.
const LOSS_QUEUE_RATIO: f64 = 0.03;
/// On a short path, less time is a queue if it is this time, this share, and the time of many segments.
pub const SHORT_QUEUE_US: f64 = 1000.0;
const SHORT_QUEUE_RATIO: f64 = 0.25;
const SHORT_QUEUE_SEGMENTS: f64 = 16.0;
/// A path is full if this share of its RTTs includes a queue.
pub const QUEUED_RATIO: f64 = 0.5;
/// The minimum ratio of host drops to retransmitted segments for the drops to explain them.
const HOST_DROP_RATIO: f64 = 0.2;

/// A socket buffer that the kernel granted smaller than the user requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClippedBuffer {
    pub requested_bytes: u64,
    pub granted_bytes: u64,
}

/// One direction of a run, with what is derived from it once.
pub struct RunView<'a> {
    pub plan: &'a ThroughputPlan,
    pub observation: &'a ThroughputObservation,
    pub arrivals: RunArrivals,
    /// The segments that arrived, in order or not.
    pub segments: RunArrivals,
    /// One list per stream of the observation, in its order.
    pub streams: Vec<Vec<SampleInterval<'a>>>,
    /// The times by which the windows of all streams were reduced once more.
    pub losses: Vec<u64>,
    pub steady: Option<SteadySpan>,
    /// The minimum RTT known.
    pub idle_rtt_us: Option<u64>,
    /// RTTs of the judged part.
    pub loaded_rtt: Option<LoadedRtt>,
    /// The share of all RTT readings that include a queue.
    pub queued_ratio: f64,
    pub totals: RunTotals,
    /// Segments that were retransmitted within the intervals.
    pub retransmitted_segments: u64,
    /// The share of the sent segments that were retransmitted.
    pub loss_ratio: Option<f64>,
    /// The largest MSS of a stream.
    pub mss_bytes: Option<u64>,
    /// Packets that the two hosts themselves dropped, by their own counters.
    pub host_drops: u64,
    /// Retransmissions that the kernel deferred because of the send buffer; 0 if too few to matter.
    pub refused_retransmits: u64,
    /// Segments that arrived were marked by a queue (ECN).
    pub has_marked_segments: bool,
    pub bbr: bool,
    /// Others filled a queue of the path before the run.
    pub has_queue_of_others: bool,
    /// Losses are those of a queue that the RTT hardly shows.
    pub has_short_queue: bool,
    /// The share of the run in which a host was too busy for its readings to be trusted.
    pub busy_ratio: f64,
    pub receive_clip: Option<ClippedBuffer>,
    pub send_clip: Option<ClippedBuffer>,
    /// The rate that all streams together reached and kept.
    pub level_bps: f64,
    /// Scatter of the interval rates of the steady part, as a share of their median.
    pub scatter_ratio: Option<f64>,
    /// The steady part scatters less than `FLAT_RATIO`.
    pub flat: bool,
    /// The segments of all streams arrive too unevenly for a full path without traffic of others.
    pub has_uneven_arrivals: bool,
    /// The receiver acknowledges late: a path without a queue raises the RTT.
    pub has_late_acks: bool,
    /// The rate and the acknowledgements of a stream follow the pauses of its reader.
    pub has_pausing_reader: bool,
    pub bucket: Option<ShaperFit>,
    pub policer: Option<PolicerFit>,
    /// The losses may be a policer's, but are too few to tell.
    pub may_be_policed: bool,
    /// True: a transfer of another program over SSH.
    pub is_ssh: bool,
    /// True: a transfer in a capture, where the waits of a sender look like queues.
    pub is_captured: bool,
    /// The levels of the path's free rate; more than one if it changed in the run.
    pub levels: Vec<RateLevel>,
    pub outages: Vec<PathOutage>,
    pub full_return_path: Option<FullReturnPath>,
}

impl<'a> RunView<'a> {
    /// Returns the rate that the path offered at this time.
    pub fn level_at_bps(&self, at_us: u64) -> f64 {
        let level = self.levels.iter().rev().find(|level| level.from_us <= at_us);
        level.filter(|_| self.levels.len() > 1).map_or(self.level_bps, |level| level.bps)
    }

    /// Returns true if this RTT includes a queue.
    pub fn is_rtt_inflated(&self, rtt_us: f64) -> bool {
        let rises = |idle: u64| rtt_us - idle as f64 >= self.queue_threshold_us();
        !self.has_late_acks && self.idle_rtt_us.is_some_and(rises)
    }

    /// Returns the share of the RTT readings of these intervals that include a queue; 0 without
    /// readings.
    pub fn measure_queued_ratio<'i>(
        &self,
        intervals: impl Iterator<Item = &'i SampleInterval<'a>>,
    ) -> f64
    where
        'a: 'i,
    {
        let (mut readings, mut queued) = (0_u32, 0_u32);
        for rtt_us in intervals.filter_map(|interval| interval.rtt_us) {
            readings += 1;
            queued += u32::from(self.is_rtt_inflated(rtt_us as f64));
        }
        f64::from(queued) / f64::from(readings.max(1))
    }

    /// Returns the time in which a link of this rate sends a segment.
    pub fn segment_us(&self, rate_bps: f64) -> f64 {
        self.mss_bytes.unwrap_or(0) as f64 * 8e6 / rate_bps.max(1.0)
    }

    /// Returns the rate that all streams together reach if the losses are random; `None` without loss.
    pub fn random_loss_bound_bps(&self) -> Option<f64> {
        let rtt_s = self.idle_rtt_us? as f64 / 1e6;
        let one = loss_bound_bps(self.mss_bytes? as f64, rtt_s, self.loss_ratio?)?;
        Some(one * self.streams.len() as f64)
    }

    pub fn queue_threshold_us(&self) -> f64 {
        let idle_us = self.idle_rtt_us.unwrap_or(0) as f64;
        let segment_us = self.segment_us(self.level_bps);
        let short_us = SHORT_QUEUE_US
            .max(SHORT_QUEUE_RATIO * idle_us)
            .max(SHORT_QUEUE_SEGMENTS * segment_us)
            .min(QUEUE_US);
        short_us.max(QUEUE_RATIO * idle_us).max(QUEUE_SEGMENTS * segment_us)
    }

    /// Returns the rise of the RTT that is a queue if it comes with losses only, on a path whose RTT is
    /// calm: a managed queue on a long path is short against the RTT.
    fn loss_queue_us(&self) -> f64 {
        let idle_us = self.idle_rtt_us.unwrap_or(0) as f64;
        let segments_us = QUEUE_SEGMENTS * self.segment_us(self.level_bps);
        QUEUE_US.max(LOSS_QUEUE_RATIO * idle_us).max(segments_us)
    }

    /// Returns true if half of these RTTs are nearly as low as the idle one.
    pub fn is_rtt_calm(&self, trips_us: impl Iterator<Item = u64>) -> bool {
        let usual_us = median(trips_us.map(|us| us as f64));
        usual_us.zip(self.idle_rtt_us).is_some_and(|(usual_us, idle_us)| {
            usual_us - idle_us as f64 <= self.loss_queue_us() / 2.0
        })
    }

    /// Returns true if one of these RTTs up to a loss includes a queue. If the RTT is calm otherwise, a shorter
    /// one counts.
    pub fn is_queued_at_loss(&self, trips_us: impl Iterator<Item = u64>, is_calm: bool) -> bool {
        trips_us.max().is_some_and(|us| {
            let rise_us = us.saturating_sub(self.idle_rtt_us.unwrap_or(0)) as f64;
            self.is_rtt_inflated(us as f64) || (is_calm && rise_us >= self.loss_queue_us())
        })
    }

    /// Returns the intervals of all streams in the steady part (or in the whole run).
    pub fn judged_intervals(&self) -> impl Iterator<Item = &SampleInterval<'a>> {
        self.streams.iter().flatten().filter(|i| self.is_judged(i))
    }

    pub fn is_judged(&self, interval: &SampleInterval) -> bool {
        !interval.draining && self.steady.is_none_or(|span| interval.to_us > span.from_us)
    }

    /// Returns true if the hosts' own drops explain the retransmissions.
    pub fn is_dropped_by_hosts(&self) -> bool {
        let lost = self.retransmitted_segments as f64;
        let dropped = self.host_drops as f64;
        dropped > 0.0 && dropped >= HOST_DROP_RATIO * lost
    }

    /// Returns true if the threads of all senders were observed, and none is another program's.
    pub fn has_own_senders(&self) -> bool {
        let mut senders = self.observation.streams.iter().map(|stream| &stream.sender);
        senders.all(stream_intervals::is_thread_observed)
    }

    /// Returns true if the sender may send many segments at once, and no packets show it.
    pub fn has_unseen_bursts(&self) -> bool {
        !self.bbr && self.plan.pacing_bps.is_none() && !self.is_captured
    }
}

/// Matches the names that drivers give to counters of received but dropped packets.
pub fn is_drop_counter(name: &str) -> bool {
    const WORDS: [&str; 6] = ["drop", "missed", "no_buffer", "discards", "fifo", "over_errors"];
    WORDS.iter().any(|word| name.contains(word))
}
