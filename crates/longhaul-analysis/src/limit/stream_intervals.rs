//! Combines the readings of both ends for the intervals between samples of the sender.
//!
//! Differences of cumulative counters over the sender's sample intervals (joined until they last
//! one round trip), with the receiver's counters interpolated to the same times.
//!
//! Source: TCP_INFO and SIOCINQ of both ends, the threads' own clocks (Linux 4.10 for the shares).
//! Units: shares of the interval's time, 0 to 1; bytes; microseconds.
//! Error: the receiver's shares are off by its sample spacing plus the clocks' error.
//! Wrong when: the responder's clock is off by more than an interval.
//!
//! # Stream traits
//!
//! Derives the traits of a whole stream before its intervals are judged.
//!
//! Standing queue, moving congestion window, small send buffer, application that keeps a requested
//! rate: single samples show these only by chance.
//!
//! Source: our experiments (docs/methods). Units: shares of the samples, bytes. Error: one sample.
//! Wrong when: the stream changes its traits during the run; the prevailing ones are used.

use super::interval_state::IntervalState;
use super::request_pattern;
use super::run_reading::{RunView, SHORT_QUEUE_US};
use crate::stats::{median, quantile, sort_finite};
use crate::throughput::arrival_timeline::{ByteTrack, interpolate_count, keep_growing_counts};
use crate::throughput::last_tcp_info;
use longhaul_model::report::v1::observation::{
    ObservedStream, StreamEnd, StreamSample, TcpReading,
};

/// A thread that spent this share of an interval inside its calls is still writing.
const IN_CALL: f64 = 0.5;

/// Activity of one stream thread during an interval, as shares of its time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadActivity {
    /// Inside blocking calls; absent: the thread was not observed, as that of another program.
    pub blocked: Option<f64>,
    pub cpu: Option<f64>,
    /// Runnable but waiting for a core.
    pub core_wait: Option<f64>,
}

impl ThreadActivity {
    /// Returns the share running or runnable; `None` without a reading of CPU time.
    pub fn demand(self) -> Option<f64> {
        Some((self.cpu? + self.core_wait.unwrap_or(0.0)).min(1.0))
    }

    /// Returns the share asleep inside the call: waiting for room (sender) or data (receiver).
    pub fn asleep(self) -> f64 {
        (self.blocked.unwrap_or(0.0) - self.demand().unwrap_or(0.0)).max(0.0)
    }

    /// Returns the share neither in a call nor running: the application did something else.
    pub fn outside_calls(self) -> f64 {
        let outside = |blocked: f64| 1.0 - blocked.max(self.demand().unwrap_or(0.0));
        self.blocked.map_or(0.0, outside).max(0.0)
    }
}

/// One interval of one stream; fields that were not read are `None`.
#[derive(Debug, Clone, Default)]
pub struct SampleInterval<'a> {
    pub from_us: u64,
    pub to_us: u64,
    /// The sender had written its last byte before this interval: nothing was left to limit.
    pub draining: bool,
    /// Bytes read by the receiving application.
    pub delivered_bytes: f64,
    pub sender: ThreadActivity,
    pub receiver: ThreadActivity,
    /// The sender's TCP_INFO at the end of the interval.
    pub tcp: Option<&'a TcpReading>,
    pub rtt_us: Option<u64>,
    pub acked_bytes: Option<u64>,
    pub retransmitted_segments: Option<u64>,
    /// Share of the interval's time limited by the receive window.
    pub window_limited: Option<f64>,
    pub buffer_limited: Option<f64>,
    /// Share of the interval's time with unacknowledged or unsent bytes.
    pub busy: Option<f64>,
    /// The share of the send buffer in use at the end of the interval.
    pub send_buffer_ratio: Option<f64>,
    /// Share of the interval's time in recovery from retransmission timeouts.
    pub in_timeout: Option<f64>,
    /// Unread bytes at the receiver, median of the interval's samples.
    pub unread_bytes: Option<u64>,
    /// The window that the receiver advertises.
    pub own_window_bytes: Option<u64>,
    /// The sender was told a window of less than half of its maximum so far: unread bytes fill it.
    pub is_window_shrunk: bool,
}

impl SampleInterval<'_> {
    pub fn length_us(&self) -> u64 {
        self.to_us.saturating_sub(self.from_us)
    }

    /// Returns the rate in bit/s of the bytes that were acknowledged.
    pub fn acked_rate_bps(&self) -> Option<f64> {
        Some(self.acked_bytes? as f64 * 8e6 / self.length_us().max(1) as f64)
    }

    pub fn has_retransmits(&self) -> bool {
        self.retransmitted_segments.is_some_and(|count| count > 0)
    }
}

/// Returns the intervals of one stream; all but the last are at least `least_us` long.
pub fn split_stream(stream: &ObservedStream, least_us: u64) -> Vec<SampleInterval<'_>> {
    let far = ReceiverCounters::of(stream);
    let samples = &stream.sender.samples;
    let start = StreamSample { at_us: stream.sender.started_us, ..StreamSample::default() };
    // The last samples are taken after the buffers ran empty, which takes a while on a slow path.
    let written_us = stream.sender.started_us.saturating_add(stream.sender.duration_us);
    // The kernel counts the time in which a full buffer limits, but often little or none of it.
    let waited_us = samples.last().and_then(|s| s.tcp.as_ref()?.send_buffer_limited_us);
    let is_counted = waited_us.is_none_or(|us| us > 0);
    // The answer to a request may fill the buffer to a byte.
    let has_requests = request_pattern::find_requests(stream).is_some();
    let is_thread_observed = is_thread_observed(&stream.sender);
    let is_spurious = has_spurious_retransmits(&stream.sender);
    let mut before = &start;
    let mut max_window_bytes = 0;
    let mut intervals = Vec::new();
    for (i, sample) in samples.iter().enumerate() {
        let length = sample.at_us.saturating_sub(before.at_us);
        let last = i + 1 == samples.len();
        if length == 0 || (length < least_us && !last) {
            continue;
        }
        let middle_us = before.at_us + length / 2;
        let mut interval = measure_interval(before, sample, &far);
        let window_bytes = sample.tcp.as_ref().and_then(|tcp| tcp.peer_window_bytes);
        max_window_bytes = max_window_bytes.max(window_bytes.unwrap_or(0));
        interval.is_window_shrunk =
            window_bytes.is_some_and(|bytes| (bytes as f64) < HALF * max_window_bytes as f64);
        interval.sender.blocked = interval.sender.blocked.filter(|_| is_thread_observed);
        if is_spurious {
            interval.retransmitted_segments = Some(0);
        }
        let is_full = |ratio: &f64| {
            is_counted || (!has_requests && *ratio >= StreamTraitsTuning::SURELY_FULL_RATIO)
        };
        interval.send_buffer_ratio = interval.send_buffer_ratio.filter(is_full);
        // Without acknowledgements the RTT is that of the last burst.
        let is_old = interval.acked_bytes == Some(0) && !is_thread_observed;
        interval.rtt_us = interval.rtt_us.filter(|_| !is_old);
        // A sender that sleeps in its last write until the end wrote its last byte long before, but
        // is not done.
        let writing = interval.sender.blocked.is_some_and(|share| share >= IN_CALL);
        intervals.push(SampleInterval {
            draining: !intervals.is_empty() && written_us < middle_us && !writing,
            ..interval
        });
        before = sample;
    }
    intervals
}

/// Returns false for the connection of another program: of a watched one the memory is read, and a captured
/// one does not tell how much is unsent.
pub fn is_thread_observed(sender: &StreamEnd) -> bool {
    !sender.samples.iter().any(|sample| {
        let is_captured =
            |tcp: &TcpReading| tcp.app_limited.is_some() && tcp.unsent_bytes.is_none();
        sample.send_buffer_ratio.is_some() || sample.tcp.as_ref().is_some_and(is_captured)
    })
}

/// Returns true if most retransmitted segments had arrived (DSACK, RFC 2883): they were late, not lost.
fn has_spurious_retransmits(sender: &StreamEnd) -> bool {
    last_tcp_info(sender).is_some_and(|tcp| {
        let duplicates = tcp.dsack_duplicates.unwrap_or(0) as f64;
        duplicates > StreamTraitsTuning::SPURIOUS_RATIO * tcp.retransmitted_segments as f64
    })
}

fn measure_interval<'a>(
    before: &StreamSample,
    now: &'a StreamSample,
    far: &ReceiverCounters,
) -> SampleInterval<'a> {
    let (from_us, to_us) = (before.at_us, now.at_us);
    let length = (to_us - from_us) as f64;
    let share = |us: Option<u64>| us.map(|us| (us as f64 / length).clamp(0.0, 1.0));
    let grown = |of: fn(&TcpReading) -> Option<u64>| {
        let earlier = before.tcp.as_ref().and_then(of).unwrap_or(0);
        now.tcp.as_ref().and_then(of)?.checked_sub(earlier)
    };
    let own = |of: fn(&StreamSample) -> Option<u64>| of(now)?.checked_sub(of(before).unwrap_or(0));
    SampleInterval {
        from_us,
        to_us,
        draining: false,
        delivered_bytes: far.bytes.at(to_us) - far.bytes.at(from_us),
        sender: ThreadActivity {
            blocked: share(own(|s| Some(s.blocked_us))),
            cpu: share(own(|s| s.cpu_us)),
            core_wait: share(own(|s| s.core_wait_us)),
        },
        receiver: far.thread(from_us, to_us),
        tcp: now.tcp.as_ref(),
        rtt_us: now.tcp.as_ref().map(|t| t.rtt_us).filter(|us| *us > 0),
        acked_bytes: grown(|t| t.bytes_acked),
        retransmitted_segments: grown(|t| Some(t.retransmitted_segments)),
        window_limited: share(grown(|t| t.receive_window_limited_us)),
        buffer_limited: share(grown(|t| t.send_buffer_limited_us)),
        busy: share(grown(|t| t.busy_us)),
        send_buffer_ratio: now.send_buffer_ratio,
        in_timeout: share(grown(|t| t.timeout_us)),
        unread_bytes: far.unread(from_us, to_us),
        own_window_bytes: far.window(to_us),
        is_window_shrunk: false,
    }
}

/// The receiver's counters, interpolated to any time.
struct ReceiverCounters<'a> {
    bytes: ByteTrack,
    blocked: CumulativeTime,
    cpu: CumulativeTime,
    core_wait: CumulativeTime,
    end: &'a StreamEnd,
}

impl<'a> ReceiverCounters<'a> {
    fn of(stream: &'a ObservedStream) -> ReceiverCounters<'a> {
        let end = &stream.receiver;
        ReceiverCounters {
            bytes: ByteTrack::of_arrivals(stream),
            blocked: CumulativeTime::of(end, |s| Some(s.blocked_us)),
            cpu: CumulativeTime::of(end, |s| s.cpu_us),
            core_wait: CumulativeTime::of(end, |s| s.core_wait_us),
            end,
        }
    }

    fn thread(&self, from_us: u64, to_us: u64) -> ThreadActivity {
        ThreadActivity {
            blocked: Some(self.blocked.share(from_us, to_us).unwrap_or(0.0)),
            cpu: self.cpu.share(from_us, to_us),
            core_wait: self.core_wait.share(from_us, to_us),
        }
    }

    /// Returns the median of the span's readings. A sampler that is short of CPU leaves spans
    /// without readings: then the lower of the readings before and after the span.
    fn unread(&self, from_us: u64, to_us: u64) -> Option<u64> {
        let samples = &self.end.samples;
        let within = samples.iter().filter(|s| s.at_us > from_us && s.at_us <= to_us);
        let mut readings: Vec<u64> = within.filter_map(|s| s.queue_bytes).collect();
        if readings.is_empty() {
            let before = samples.iter().rev().find(|s| s.at_us <= from_us)?;
            let after = samples.iter().find(|s| s.at_us > to_us)?;
            return Some(before.queue_bytes?.min(after.queue_bytes?));
        }
        readings.sort_unstable();
        readings.get(readings.len() / 2).copied()
    }

    fn window(&self, to_us: u64) -> Option<u64> {
        let mut until = self.end.samples.iter().rev().filter(|s| s.at_us <= to_us);
        until.find_map(|s| s.tcp.as_ref()?.own_window_bytes)
    }
}

/// A cumulative time of the receiver's thread, interpolated between its samples.
struct CumulativeTime {
    points: Vec<(u64, u64)>,
}

impl CumulativeTime {
    fn of(end: &StreamEnd, reading: fn(&StreamSample) -> Option<u64>) -> CumulativeTime {
        let readings = end.samples.iter().filter_map(|s| Some((s.at_us, reading(s)?)));
        CumulativeTime { points: keep_growing_counts(end.started_us, readings) }
    }

    /// Returns the growth per time over the sampled part of the span; `None` if there is none.
    fn share(&self, from_us: u64, to_us: u64) -> Option<f64> {
        let (first, last) = (self.points[0].0, self.points[self.points.len() - 1].0);
        let (from, to) = (from_us.max(first), to_us.min(last));
        let at = |at_us| interpolate_count(&self.points, |point| *point, at_us);
        (to > from).then(|| ((at(to) - at(from)) / (to - from) as f64).clamp(0.0, 1.0))
    }
}

/// A state that holds for this share of an interval's time determines the interval.
pub const HALF: f64 = 0.5;
/// Outstanding bytes below this share of both windows are limited by the send buffer.
pub const BELOW_WINDOW_RATIO: f64 = 0.9;
/// The parameters of a stream's traits.
struct StreamTraitsTuning;

impl StreamTraitsTuning {
    /// A congestion window that changed by this factor while the rate did not is not the limit.
    const MOVED_RATIO: f64 = 1.2;
    /// If unsent bytes are below this share of the outstanding ones, the buffer has no reserve.
    const NO_RESERVE_RATIO: f64 = 0.1;
    /// A stream whose send buffer ran dry in this share of its samples has a small buffer.
    const DRY_RATIO: f64 = 0.4;
    /// With more duplicates than this share of the retransmits, most of them were not lost.
    const SPURIOUS_RATIO: f64 = 0.5;
    /// A requested rate is kept if this share of it is reached.
    const KEPT_RATIO: f64 = 0.9;
    const KEPT_EXACTLY_RATIO: f64 = 0.98;
    /// A standing queue raises even the lower RTTs of a stream. A quarter, because a window slightly
    /// above the BDP takes a while to build its queue.
    const STANDING_QUANTILE: f64 = 0.25;
    /// The quantile for a queue that almost never empties. The bursts of a small send buffer also
    /// queue, in half of the samples and more, but not in these.
    const EVER_STANDING_QUANTILE: f64 = 0.1;
    /// The minimum ratio of these RTTs to the idle one for a queue that is too short for the usual
    /// threshold, and the minimum rise in segments.
    const NEVER_EMPTY_RATIO: f64 = 1.5;
    const NEVER_EMPTY_SEGMENTS: f64 = 3.0;
    /// The maximum ratio of usual RTTs to the idle one for which the windows of several streams are more likely
    /// to be bursts on a free path than to just fill it: they raised it by 16 % at a third of its rate.
    const OWN_BURSTS_RATIO: f64 = 1.2;
    /// The minimum ratio of the kernel's delivery rate to the rate of the interval, in half of the
    /// intervals, for bursts that a path passes faster.
    const FASTER_BURSTS_RATIO: f64 = 1.08;
    /// A send buffer of an unobserved thread that is used to this share is full if the kernel counted that
    /// it limited at all, and to the second share if nothing requested its bytes. Without a limit,
    /// autotuning keeps it at about half, and at 0.62 in one experiment.
    const FULL_BUFFER_RATIO: f64 = 0.6;
    const SURELY_FULL_RATIO: f64 = 0.7;
    /// The minimum share of intervals with a shrunk window of a reader that pauses.
    const PAUSES_RATIO: f64 = 0.1;
}

#[derive(Debug, Clone, Copy)]
pub struct StreamTraits {
    /// Even the lower RTTs are raised.
    pub standing_queue: bool,
    /// The queue stands although receive windows are full.
    pub window_queue: bool,
    /// Even the lowest RTTs are raised by half: a short queue that never empties.
    pub never_empty_queue: bool,
    /// Half of the RTTs are nearly as low as the idle one.
    pub calm_rtt: bool,
    /// The congestion control is Reno.
    pub is_reno: bool,
    /// The congestion window changed during the judged part.
    pub window_moved: bool,
    /// The send buffer is smaller than the windows it could fill.
    pub small_buffer: bool,
    /// The application keeps the rate that was requested.
    pub requested_rate_state: Option<IntervalState>,
    /// A reader that was not observed lets its window shrink again and again.
    pub has_pausing_reader: bool,
}

impl StreamTraits {
    pub fn of(
        run: &RunView,
        stream: &ObservedStream,
        intervals: &[SampleInterval],
    ) -> StreamTraits {
        let standing_queue =
            has_standing_queue(run, intervals, StreamTraitsTuning::STANDING_QUANTILE);
        let judged = intervals.iter().filter(|i| run.is_judged(i));
        StreamTraits {
            standing_queue,
            window_queue: standing_queue
                && (run.streams.len() == 1 || exceeds_own_bursts(run, intervals)),
            never_empty_queue: !run.has_late_acks && is_queue_never_empty(run, intervals),
            calm_rtt: run.is_rtt_calm(judged.filter_map(|i| i.rtt_us)),
            is_reno: stream.sender.congestion_control.as_deref() == Some("reno"),
            window_moved: has_window_moved(run, intervals),
            small_buffer: has_small_send_buffer(run, stream, intervals)
                && (passes_faster_bursts(run, intervals)
                    || !has_standing_queue(
                        run,
                        intervals,
                        StreamTraitsTuning::EVER_STANDING_QUANTILE,
                    )),
            requested_rate_state: find_requested_rate_state(run, standing_queue),
            has_pausing_reader: has_pausing_reader(intervals),
        }
    }
}

/// Returns the application state if an application keeps its requested rate. It is the limit even
/// if its thread also waited for a core.
fn find_requested_rate_state(run: &RunView, standing_queue: bool) -> Option<IntervalState> {
    let whole = (run.arrivals.from_us(), run.arrivals.to_us());
    let (from_us, to_us) = run.steady.map_or(whole, |s| (s.from_us, s.to_us));
    let reached = run.arrivals.rate_between_bps(from_us, to_us);
    // The bursts of a writer queue on a slow link even if it keeps its rate exactly.
    let least = if standing_queue {
        StreamTraitsTuning::KEPT_EXACTLY_RATIO
    } else {
        StreamTraitsTuning::KEPT_RATIO
    };
    let kept = |asked: Option<u64>| asked.is_some_and(|bps| reached >= least * bps as f64);
    if kept(run.plan.write_rate_bps) {
        return Some(IntervalState::SenderApp);
    }
    kept(run.plan.read_rate_bps).then_some(IntervalState::ReceiverApp)
}

/// Returns true if the window of a reader that was not observed is shrunk in many intervals. Such a receiver also
/// delays its acknowledgements, which looks like a queue.
pub fn has_pausing_reader(intervals: &[SampleInterval]) -> bool {
    let shrunk = intervals.iter().filter(|i| i.is_window_shrunk && i.sender.blocked.is_none());
    shows_pauses(shrunk.count(), intervals.len())
}

/// Returns true if a window that is shrunk in so many of all intervals is that of a reader that pauses. It shrank
/// in at least 20 % of them with readers at a fifth to three fifths of the rate of a path, and in at most 2 % with
/// any other limit.
pub fn shows_pauses(shrunk: usize, all: usize) -> bool {
    shrunk as f64 >= StreamTraitsTuning::PAUSES_RATIO * all.max(1) as f64
}

fn has_standing_queue(run: &RunView, intervals: &[SampleInterval], share: f64) -> bool {
    let judged = intervals.iter().filter(|i| run.is_judged(i));
    let trips = sort_finite(judged.filter_map(|i| i.rtt_us).map(|us| us as f64));
    quantile(&trips, share).is_some_and(|rtt| run.is_rtt_inflated(rtt))
}

/// Returns true if the RTT is raised by more than the full receive windows of several streams raise it that
/// arrive as bursts behind each other.
fn exceeds_own_bursts(run: &RunView, intervals: &[SampleInterval]) -> bool {
    let trips = intervals.iter().filter(|i| run.is_judged(i)).filter_map(|i| i.rtt_us);
    median(trips.map(|us| us as f64)).zip(run.idle_rtt_us).is_some_and(|(usual_us, idle_us)| {
        usual_us > StreamTraitsTuning::OWN_BURSTS_RATIO * idle_us as f64
    })
}

/// Returns true if nearly all RTTs exceed the idle one by half and by some segments. Bursts raise some
/// RTTs, and only a queue that never empties raises the lowest ones.
fn is_queue_never_empty(run: &RunView, intervals: &[SampleInterval]) -> bool {
    let judged = intervals.iter().filter(|i| run.is_judged(i));
    let trips = sort_finite(judged.filter_map(|i| i.rtt_us).map(|us| us as f64));
    let idle_us = run.idle_rtt_us.unwrap_or(0) as f64;
    let segments_us = StreamTraitsTuning::NEVER_EMPTY_SEGMENTS * run.segment_us(run.level_bps);
    let low_us = quantile(&trips, StreamTraitsTuning::EVER_STANDING_QUANTILE);
    low_us.is_some_and(|low_us| {
        idle_us > 0.0
            && low_us >= StreamTraitsTuning::NEVER_EMPTY_RATIO * idle_us
            && low_us - idle_us >= SHORT_QUEUE_US.max(segments_us)
    })
}

/// Returns true if the path passes the bursts of a stream without losses faster than the stream goes: no
/// queue holds it all the time. Source: `tcpi_delivery_rate` (Linux 4.9).
fn passes_faster_bursts(run: &RunView, intervals: &[SampleInterval]) -> bool {
    let judged = || intervals.iter().filter(|i| run.is_judged(i));
    let ratios =
        judged().filter_map(|i| Some(i.tcp?.delivery_bps? as f64 / i.acked_rate_bps()?.max(1.0)));
    let is_faster = median(ratios).is_some_and(|it| it >= StreamTraitsTuning::FASTER_BURSTS_RATIO);
    is_faster && !judged().any(SampleInterval::has_retransmits)
}

fn has_window_moved(run: &RunView, intervals: &[SampleInterval]) -> bool {
    let judged = intervals.iter().filter(|i| run.is_judged(i));
    let windows = sort_finite(judged.filter_map(|i| i.tcp).map(|t| t.cwnd_bytes as f64));
    let ends = quantile(&windows, 0.1).zip(quantile(&windows, 0.9));
    ends.is_some_and(|(low, high)| high > StreamTraitsTuning::MOVED_RATIO * low)
}

/// Returns true if a requested send buffer is smaller than the windows, or the buffer ran dry below
/// them in many samples. Linux lets one write exceed the buffer, so that a small one empties and
/// overfills alternately, and single samples show either.
fn has_small_send_buffer(
    run: &RunView,
    stream: &ObservedStream,
    intervals: &[SampleInterval],
) -> bool {
    let judged = || intervals.iter().filter(|i| run.is_judged(i) && i.tcp.is_some());
    let dry = judged().filter(|i| is_send_buffer_dry(i)).count() as f64;
    let often = dry >= StreamTraitsTuning::DRY_RATIO * judged().count() as f64 && dry > 0.0;
    let rooms =
        sort_finite(judged().filter_map(|i| i.tcp).map(|tcp| compute_window_room(tcp) as f64));
    let asked = stream.sender.send_buffer.filter(|b| b.asked_bytes.is_some());
    let small = asked.zip(rooms.last().copied()).is_some_and(|(buffer, room)| {
        let stored = buffer.stored_bytes.max(buffer.granted_bytes) as f64;
        stored > 0.0 && stored < BELOW_WINDOW_RATIO * room
    });
    often || (small && dry > 0.0) || run.refused_retransmits > 0
}

/// Returns the bytes that the peer and the congestion control allow to be outstanding.
pub fn compute_window_room(tcp: &TcpReading) -> u64 {
    tcp.cwnd_bytes.min(tcp.peer_window_bytes.unwrap_or(u64::MAX))
}

/// Returns true if the sender waits for room in its send buffer: it sleeps in write, or, if its thread
/// was not observed, it fills the buffer. The kernel wakes a writer when a third of the buffer is free
/// (`sk_stream_min_wspace`), and an autotuned buffer has room for twice the congestion window.
pub fn waits_for_send_buffer(interval: &SampleInterval) -> bool {
    interval.sender.asleep() >= HALF
        || interval.send_buffer_ratio.is_some_and(|it| it >= StreamTraitsTuning::FULL_BUFFER_RATIO)
}

/// Returns true if the sender waits for its send buffer with nothing unsent, and the windows are not full.
pub fn is_send_buffer_dry(interval: &SampleInterval) -> bool {
    let Some(tcp) = interval.tcp else {
        return false;
    };
    let reserve = (StreamTraitsTuning::NO_RESERVE_RATIO * tcp.unacked_bytes as f64)
        .max(2.0 * tcp.mss_bytes as f64);
    let dry = tcp.unsent_bytes.is_some_and(|unsent| unsent as f64 <= reserve);
    let below = (tcp.unacked_bytes as f64) < BELOW_WINDOW_RATIO * compute_window_room(tcp) as f64;
    waits_for_send_buffer(interval) && dry && below
}
